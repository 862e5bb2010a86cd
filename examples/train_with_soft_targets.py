"""Use the CTC functions in a training loop: a drop-in loss, and its soft alignment as targets of
another network.

    python examples/train_with_soft_targets.py

A teacher learns a made-up task by CTC; `occupancy` then says, for every frame, how probable each
token is given the transcript, and a student learns these soft targets frame by frame.
"""

from __future__ import annotations

import torch

from ctc_align import CTCLoss
from ctc_align.functional import occupancy

FRAMES, BATCH, CLASSES, TOKENS = 60, 16, 8, 6


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    targets = torch.randint(1, CLASSES, (BATCH, TOKENS))
    frames, tokens = torch.full((BATCH,), FRAMES), torch.full((BATCH,), TOKENS)
    # Sound: each token lasts ten frames, in noise.
    sound = (
        torch.nn.functional.one_hot(targets, CLASSES)
        .float()
        .repeat_interleave(10, 1)
        .transpose(0, 1)
    )
    sound = sound + 0.5 * torch.randn(FRAMES, BATCH, CLASSES)

    teacher, ctc = torch.nn.Linear(CLASSES, CLASSES), CTCLoss()
    optimizer = torch.optim.Adam(teacher.parameters(), 0.1)
    for step in range(steps):
        loss = ctc(teacher(sound).log_softmax(2), targets, frames, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, steps - 1):
            print(f"teacher, step {step + 1}: CTC loss {loss.item():.3f}")

    soft_targets = occupancy(
        teacher(sound).log_softmax(2).detach(), targets, frames, tokens
    )  # (T, N, C), rows sum to 1
    student = torch.nn.Linear(CLASSES, CLASSES)
    optimizer = torch.optim.Adam(student.parameters(), 0.1)
    for step in range(steps):
        loss = -(soft_targets * student(sound).log_softmax(2)).sum(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, steps - 1):
            print(f"student, step {step + 1}: cross-entropy {loss.item():.3f}")


if __name__ == "__main__":
    main()
