"""Money, pure: offers and prices, billable intervals. No I/O and no clock."""
