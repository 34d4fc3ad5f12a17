# SPDX-License-Identifier: Apache-2.0
"""The agent: root's daemon on each node, which takes in what hooks and slurmstepd tell of jobs, and loses none of it.

daemon     the loop; the only module that knows all others
place      the spool and the socket, held by one agent
server     connections: many, slow, hostile; message: what must be known of one
intake     who may send what, and where it belongs (attempts: pure); notes: what was left while there was no agent
slurmstepds  which jobs have one, where nothing else tells whether they run
storing    the thread that writes, group by group; usage: how full the spool is; reserve: for a full disk
devices    two looks at the node's devices for each attempt
ending     what happens at the end of an attempt: which files (sources, output_pattern), read by whom (reading)
archiver   keeps the other process alive, which alone touches the archive
health     what is wrong with the node, and what is done about it; a package
answers    status, verdict, health and gate
check      `stepguard agent --check`
service    what systemd is told; signals: what it is told itself; log: what people are told
"""
