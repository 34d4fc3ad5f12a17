# SPDX-License-Identifier: Apache-2.0
"""The health of a node: what its devices and its kernel say, and what is to be done about it.

model       what all here speak of: Event, Judgement, Status, FaultClass, Action
catalogue   data: what an XID, an SXID or a DCGM error means and asks for, with sources
kernel      lines of the kernel's log → events
tools       what nvidia-smi, dcgmi, fi_info, ibstat and the Neuron tools print → judgements
explain     which of these a pasted text is, and what it says: `stepguard health explain`
"""
