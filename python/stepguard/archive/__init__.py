# SPDX-License-Identifier: Apache-2.0
"""The archive: the records of all jobs of a cluster, in a directory that all its nodes share.

Written by one process a node, in reading order:

layout    where things lie
timeline  the messages of an attempt in the order in which they happened, whatever the clock did
steps     its steps out of those messages
job       what they say of the job
fold      messages → a node's part, and on the lead node the manifest
late      what arrives after the record was finished, put into it
contents  script, environment, output and the like, redacted and as they are stored
script_check  what there is to say about the script, found by a process of its own
store     directories and files that survive a power cut and lead nobody astray
record    one attempt from the spool into the archive
archiver  the loop over all of them; preparation: what it needs of the configuration, and what is wrong with it
"""
