"""ELECTRA 15% (section 3.5): what is left of the gain when the loss counts only the masked positions."""

from torch import Tensor

from electra.data.feeding.batch import Batch
from electra.objectives.corruption import Corrupted
from electra.objectives.rtd import ReplacedTokenDetection


class Electra15(ReplacedTokenDetection, kind="electra_15"):
    """Replaced token detection at the masked positions."""

    def counted(self, batch: Batch[Tensor], corrupted: Corrupted) -> Tensor:
        return corrupted.masked.chosen  # whatever the generator put there
