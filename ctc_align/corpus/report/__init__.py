"""The report of a corpus run: its figures, collected from journals and outputs, and the page that
shows them."""
