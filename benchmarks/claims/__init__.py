"""What papers claim of their strategies, in which regime, and whether it is found here."""
