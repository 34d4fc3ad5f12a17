# SPDX-License-Identifier: Apache-2.0
"""What a code means and asks for: XIDs, SXIDs, DCGM's error ids, and the kernel's other messages.

entry      one row: meaning, class, action, how often it must come, what counts for more, where it is from
rows       reads the data files beside it: xid.toml, sxid.toml, dcgm.toml, kernel.toml
catalogue  looks rows up, and puts a site's own over them
nvlink5    the sub-codes of XIDs 144 to 150, and what an XID 154 says
judging    class and action → status

Facts are those of the sources that each row names, words are our own. The action is advice, never a command.
"""

from stepguard.health.catalogue.catalogue import Catalogue, lookup, of_site, shipped
from stepguard.health.catalogue.entry import XID_154, Entry, Repeats
from stepguard.health.catalogue.judging import status_of

__all__ = ["XID_154", "Catalogue", "Entry", "Repeats", "lookup", "of_site", "shipped", "status_of"]
