"""Our figures against figures that others measured or computed: see `report`."""
