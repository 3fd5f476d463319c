"""A table of the user, for any of the other families."""

from electra.tasks.base import Family
from electra.tasks.table.task import table_task

FAMILY = Family(("table",), table_task, lambda network: None)  # heads belong to the other families
