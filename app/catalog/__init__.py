"""Facts that ship with the product: loaded once, checked, frozen, with a digest."""
