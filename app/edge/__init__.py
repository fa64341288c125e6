"""What surrounds routing: one pure ASGI layer, the answers it keeps, and what it tells of them."""
