------------------------------ MODULE Labels ------------------------------
(* One agent, its Node, and everybody else who edits that: toposcope/agent/loop.py and publish.py.                   *)
(*                                                                                                                   *)
(* Assumed: a request is carried out before the next one of an agent of the same machine, or never; the API server   *)
(* refuses an apply that names another uid than the Node's. One label stands for all: an apply names each of them.   *)
EXTENDS Integers

CONSTANTS Values,  \* what the hardware may be
          Changes  \* how often something else than the agent acts

None == "none"
Unknown == "unknown"
NoNode == [uid |-> 0, value |-> None]

VARIABLES
  hardware, \* what the hardware is
  answers,  \* whether it answers probes
  node,     \* the Node: its uid and its label
  known,    \* the Node as the agent knows it; NoNode: it has to read it
  probed,   \* what the last probe said: a value, Unknown, or None before the first
  due,      \* whether the agent has reason to look: its interval is over, or its watch saw a change
  had,      \* what the hardware of this machine has been
  late,     \* the last write of an agent on a machine that had this Node's name before; NoNode: none is on its way
  changes

vars == <<hardware, answers, node, known, probed, due, had, late, changes>>

Init ==
  /\ hardware \in Values /\ answers \in BOOLEAN /\ node = [uid |-> 1, value |-> None]
  /\ known = NoNode /\ probed = None /\ due = TRUE /\ had = {hardware} /\ late = NoNode /\ changes = Changes

(* ---- The agent ---- *)

Read ==
  /\ due /\ known = NoNode
  /\ known' = node
  /\ UNCHANGED <<hardware, answers, node, probed, due, had, late, changes>>

Probe ==
  /\ due /\ probed = None
  /\ probed' = IF answers THEN hardware ELSE Unknown
  /\ UNCHANGED <<hardware, answers, node, known, due, had, late, changes>>

\* What a probe does not tell keeps the value that the Node has.
Desired == IF probed = Unknown THEN known.value ELSE probed

Publish ==
  /\ due /\ known /= NoNode /\ probed /= None
  /\ IF Desired = known.value
     THEN /\ due' = FALSE /\ probed' = None /\ UNCHANGED <<node, known>>
     ELSE IF known.uid = node.uid
     THEN /\ node' = [node EXCEPT !.value = Desired]
          /\ known' = node' /\ due' = FALSE /\ probed' = None
     ELSE /\ known' = NoNode /\ UNCHANGED <<node, due, probed>>  \* another Node of that name: read it, and write then
  /\ UNCHANGED <<hardware, answers, had, late, changes>>

\* The request fails, and nobody knows whether it was carried out.
Lose ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ due /\ known /= NoNode /\ probed /= None /\ known' = NoNode /\ probed' = None
  /\ node' \in {node, IF known.uid = node.uid THEN [node EXCEPT !.value = Desired] ELSE node}
  /\ UNCHANGED <<hardware, answers, due, had, late>>

Crash ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ known' = NoNode /\ probed' = None /\ due' = TRUE
  /\ UNCHANGED <<hardware, answers, node, had, late>>

\* Its interval is over, or its watch shows a Node that is not as it was written.
Wake ==
  /\ ~due /\ (node /= known \/ hardware /= node.value) /\ due' = TRUE
  /\ known' = IF node /= known THEN NoNode ELSE known
  /\ UNCHANGED <<hardware, answers, node, probed, had, late, changes>>

(* ---- Others ---- *)

Others ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ \/ answers' = ~answers /\ UNCHANGED <<hardware, node, had>>
     \/ hardware' \in Values \ {hardware} /\ had' = had \cup {hardware'} /\ UNCHANGED <<answers, node>>
     \/ node.value /= None /\ node' = [node EXCEPT !.value = None] /\ UNCHANGED <<hardware, answers, had>>
     \/ node' = [uid |-> node.uid + 1, value |-> None] /\ UNCHANGED <<hardware, answers, had>>
  /\ UNCHANGED <<known, probed, due, late>>

\* The machine goes, and another one gets its name.
Replace ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ late' = IF known /= NoNode /\ probed /= None THEN [uid |-> known.uid, value |-> Desired] ELSE late
  /\ node' = [uid |-> node.uid + 1, value |-> None]
  /\ hardware' \in Values /\ had' = {hardware'} /\ answers' \in BOOLEAN
  /\ known' = NoNode /\ probed' = None /\ due' = TRUE

TakeLate ==
  /\ late /= NoNode /\ late' = NoNode
  /\ node' = IF late.uid = node.uid THEN [node EXCEPT !.value = late.value] ELSE node
  /\ UNCHANGED <<hardware, answers, known, probed, due, had, changes>>

Repair == answers' = TRUE /\ UNCHANGED <<hardware, node, known, probed, due, had, late, changes>>

Agent == Read \/ Probe \/ Publish \/ Wake
Next == Agent \/ Lose \/ Crash \/ Others \/ Replace \/ TakeLate \/ Repair
Spec == Init /\ [][Next]_vars /\ WF_vars(Agent) /\ WF_vars(Repair)

(* ---- What must hold ---- *)

\* What the label says the hardware of this Node's machine has been.
True == node.value \in had \cup {None}

\* The agent never takes the label away, whatever it cannot see.
Kept == [][node.uid = node'.uid /\ node.value /= None /\ node'.value = None => ~(Publish \/ Lose)]_vars

\* It says what the hardware is in the end.
Published == <>[](node.value = hardware)
=============================================================================
