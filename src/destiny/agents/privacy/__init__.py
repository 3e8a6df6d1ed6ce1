"""What hides an agent's numbers from its neighbours: keys, masks, and the exchange that uses them."""
