"""All-Tokens MLM (section 3.5): every token predicted, with a copy mechanism; BERT and ELECTRA combined."""

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.data.feeding.batch import Batch
from electra.model.initialize import glorot_linear
from electra.model.networks import MaskedLM
from electra.objectives.base import Predictions, Step, log_likelihood, weighted_sum
from electra.objectives.corruption import CorruptingObjective
from electra.objectives.draws import Draws
from electra.objectives.masking import everywhere, real_tokens


class AllTokensMLM(CorruptingObjective, kind="all_tokens_mlm"):
    """p(x_t) = D · 1[x_t is the input token] + (1 - D) · softmax, with D = sigmoid(copy score)."""

    main = MaskedLM
    network: MaskedLM

    def complete(self) -> None:
        self.copy = glorot_linear(self.network.encoder.config.hidden_size, 1)

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        corrupted = self.corrupt(batch, draws)
        hidden, logits = self.network(corrupted.ids, batch.attention, batch.types)  # (B, L, H), (B, L, V)
        logits = logits.float()
        copy = self.copy(hidden).squeeze(-1).float()  # (B, L)
        predicted = log_likelihood(logits, batch.ids)
        copied = torch.where(corrupted.ids == batch.ids, F.logsigmoid(copy), -torch.inf)
        nll = -torch.logaddexp(copied, F.logsigmoid(-copy) + predicted)
        weights = real_tokens(batch).float()
        with torch.no_grad():
            generated = F.logsigmoid(-copy)[..., None] + logits.log_softmax(-1)
            of_input = torch.logaddexp(F.logsigmoid(copy), generated.gather(-1, corrupted.ids[..., None]).squeeze(-1))
            best, token = generated.max(-1)
            guess = torch.where(of_input >= best, corrupted.ids, token)
        predictions = Predictions(nll.detach(), guess, guess == batch.ids, everywhere(batch), weights)
        terms = corrupted.loss, weighted_sum(nll, weights)
        return Step(terms, corrupted.ids, corrupted.generator, main=predictions)
