"""One agent's reaction to a GPU that is to be replaced: mark.py PACKAGE NODE fail|drain|well MAX_NODES MAX_FRACTION.

Prints what was done as one line of JSON.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

from stepguard.health.breaker import Bounds
from stepguard.health.marking import Reaction, carry_out, decide
from stepguard.health.model import Action, Status
from stepguard.health.verdict import Item, verdict_of
from stepguard.slurm.commands import Commands

name = sys.argv[2]
is_well = sys.argv[3] == "well"
reaction: Reaction = "fail" if sys.argv[3] == "fail" else "drain"
bounds = Bounds(int(sys.argv[4]), float(sys.argv[5]), 3600.0)
client = Commands()
item = Item("xid", 79, "0000:0f:00", "0000:0f:00", Status.FAIL, Action.REPLACE, "fallen off the bus", 0, 0, 1)
decision = decide(verdict_of([] if is_well else [item], True), client.nodes([name])[0], reaction, {})
outcome = carry_out(decision, name, client, bounds)
print(json.dumps({"done": outcome.done, "text": outcome.text}))
