"""The implementation of `ctc_align.functional` and `ctc_align.losses`: autograd and the checks of arguments."""
