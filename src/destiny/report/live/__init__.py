"""A folder of results and running jobs in the browser: `destiny serve`."""
