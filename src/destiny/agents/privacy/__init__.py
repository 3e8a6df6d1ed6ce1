"""What hides an agent's numbers from its neighbors: keys, masks, and the exchange that uses them."""
