"""Source: data sets, the order in which their prompts are drawn, and the service that writes them."""
