"""python smooth.py KIND SIZE COMMAND...: `electra COMMAND...` with another penalty in fine-tuning, of weight 1.

KIND is noise, a random move of the embeddings, vat, the move that changes the predictions most, or fgm, the move that
raises the loss most, with the loss there as the penalty. SIZE is the length of a text's move, relative to its
embeddings'.
"""

import sys

import torch

from electra.cli import main
from electra.recipes import finetune


class Penalized(finetune.TaskLoss):
    """The loss of a task and a penalty."""

    def predict(self, batch, move=None):
        """Return hidden states, logits and embeddings, moved or not."""
        seen = []

        def add(module, inputs, embedded):
            seen.append(embedded)
            return embedded if move is None else embedded + move

        handle = self.encoder.embeddings.register_forward_hook(add)
        hidden = self.tuning.task.states(self.encoder, self.head, batch)
        handle.remove()
        return hidden, self.tuning.task.outputs(self.head, hidden, batch)["logits"], seen[0]

    def forward(self, batch):
        """Return the loss of a batch."""
        task, mask = self.tuning.task, (batch["attention"] != 0).unsqueeze(-1)
        hidden, logits, embedded = self.predict(batch)
        loss = task.loss(self.head, hidden, batch)

        def along(direction):
            lengths = [(part * mask).norm(dim=(1, 2), keepdim=True) for part in (embedded.detach(), direction)]
            return SIZE * direction * mask * (lengths[0] / lengths[1].clamp(min=1e-12))

        if KIND == "fgm":
            (gradient,) = torch.autograd.grad(loss, embedded, retain_graph=True)
            moved, *_ = self.predict(batch, along(gradient))
            return finetune.Outcome((loss + task.loss(self.head, moved, batch)) / 2)
        move = along(torch.randn_like(embedded))
        if KIND == "vat":
            move = (0.1 * move).requires_grad_()
            change = task.kind.divergence(self.predict(batch, move)[1], logits.detach()).sum()
            move = along(torch.autograd.grad(change, move)[0])
        change = task.kind.divergence(self.predict(batch, move)[1], logits)
        return finetune.Outcome(loss + (change * batch["weights"]).sum() / batch["weights"].sum().clamp(min=1))


KIND, SIZE = sys.argv[1], float(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
finetune.TaskLoss = Penalized
main()
