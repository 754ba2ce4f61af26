JÎKAg*A±
‹Á