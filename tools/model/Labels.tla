------------------------------ MODULE Labels ------------------------------
(* One agent, its Node, and everybody else who edits that: toposcope/agent/loop.py and publish.py.                   *)
(*                                                                                                                   *)
(* Assumed: a request is carried out before the next one of an agent of the same machine, or never; the API server   *)
(* refuses an apply that names another uid than the Node's. One label stands for all that say what the hardware is:  *)
(* an apply names each of them, and there may be one because of `state` alone.                                       *)
EXTENDS Integers

CONSTANTS Values,  \* what the hardware may be
          Changes  \* how often something else than the agent acts

None == "none"
Unknown == "unknown"
Edited == "edited"  \* what somebody else made of it
NoNode == [uid |-> 0, value |-> None]

VARIABLES
  hardware, \* what the hardware is
  answers,  \* whether it answers probes
  node,     \* the Node: its uid and its label
  known,    \* the Node as the agent knows it; NoNode: it has to read it
  probed,   \* what the last probe said: a value, Unknown, or None before the first
  due,      \* whether the agent has reason to look: its interval is over, or its watch saw a change
  had,      \* what the hardware of this machine has been
  late,     \* the last write that nobody waits for any more; NoNode: none is on its way
  changes

vars == <<hardware, answers, node, known, probed, due, had, late, changes>>

Init ==
  /\ hardware \in Values /\ answers \in BOOLEAN /\ node = [uid |-> 1, value |-> None]
  /\ known = NoNode /\ probed = None /\ due = TRUE /\ had = {hardware} /\ late = NoNode /\ changes = Changes

(* ---- The agent ---- *)

\* Because it does not know the Node, its watch shows another one than it knows, or ten minutes are over.
Read ==
  /\ known' = node
  /\ late' = IF late.uid = node.uid THEN NoNode ELSE late  \* assumed, see above
  /\ UNCHANGED <<hardware, answers, node, probed, due, had, changes>>

Probe ==
  /\ due
  /\ probed' = IF answers THEN hardware ELSE Unknown
  /\ UNCHANGED <<hardware, answers, node, known, due, had, late, changes>>

\* What a probe does not tell keeps the value that the Node has.
Desired == IF probed = Unknown THEN known.value ELSE probed

MayPublish == due /\ known /= NoNode /\ probed /= None

\* An apply without the label takes it away if an agent wrote it, and leaves it if somebody else did.
Written ==
  IF known.uid /= node.uid \/ (Desired = None /\ node.value = Edited) THEN node ELSE [node EXCEPT !.value = Desired]

Publish ==
  /\ MayPublish
  /\ \/ Desired = known.value /\ due' = FALSE /\ probed' = None /\ UNCHANGED <<node, known>>
     \/ /\ known.uid = node.uid /\ node' = Written /\ known' = node'
        /\ \/ due' = FALSE /\ probed' = None
           \/ UNCHANGED <<due, probed>>  \* the connection broke right after that: the client sends it once more
     \/ known.uid /= node.uid /\ known' = NoNode /\ UNCHANGED <<node, due, probed>>  \* another Node: read, then write
  /\ UNCHANGED <<hardware, answers, had, late, changes>>

\* The request fails, and nobody knows whether it was carried out, or will be.
Underway == IF MayPublish THEN {late, [uid |-> known.uid, value |-> Desired]} ELSE {late}
Lose ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ MayPublish /\ known' = NoNode /\ probed' = None
  /\ \/ node' = Written /\ late' = late
     \/ node' = node /\ late' \in Underway
  /\ UNCHANGED <<hardware, answers, due, had>>

Crash ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ known' = NoNode /\ probed' = None /\ due' = TRUE /\ late' \in Underway
  /\ UNCHANGED <<hardware, answers, node, had>>

\* Its interval is over, or something has happened.
Wake ==
  /\ ~due /\ due' = TRUE
  /\ UNCHANGED <<hardware, answers, node, known, probed, had, late, changes>>

(* ---- Others ---- *)

Others ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ \/ answers' = ~answers /\ UNCHANGED <<hardware, node, had>>
     \/ hardware' \in Values \ {hardware} /\ had' = had \cup {hardware'} /\ UNCHANGED <<answers, node>>
     \/ \E value \in {None, Edited} : node' = [node EXCEPT !.value = value] /\ UNCHANGED <<hardware, answers, had>>
     \/ node' = [uid |-> node.uid + 1, value |-> None] /\ UNCHANGED <<hardware, answers, had>>
  /\ UNCHANGED <<known, probed, due, late>>

\* The machine goes, and another one gets its name.
Replace ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ late' \in Underway
  /\ node' = [uid |-> node.uid + 1, value |-> None]
  /\ hardware' \in Values /\ had' = {hardware'} /\ answers' \in BOOLEAN
  /\ known' = NoNode /\ probed' = None /\ due' = TRUE

TakeLate ==
  /\ late /= NoNode /\ late' = NoNode
  /\ node' = IF late.uid = node.uid THEN [node EXCEPT !.value = late.value] ELSE node
  /\ UNCHANGED <<hardware, answers, known, probed, due, had, changes>>

Repair == answers' = TRUE /\ UNCHANGED <<hardware, node, known, probed, due, had, late, changes>>

Next == Read \/ Probe \/ Publish \/ Wake \/ Lose \/ Crash \/ Others \/ Replace \/ TakeLate \/ Repair
Fairness == WF_vars(Read) /\ WF_vars(Probe) /\ WF_vars(Publish) /\ WF_vars(Wake) /\ WF_vars(Repair)
Spec == Init /\ [][Next]_vars /\ Fairness

(* ---- What must hold ---- *)

\* What the label says the hardware of this Node's machine has been.
True == node.value \in had \cup {None, Edited}

\* The agent never takes the label away, whatever it cannot see.
Kept == [][node.uid = node'.uid /\ node.value /= None /\ node'.value = None => ~(Publish \/ Lose)]_vars

\* It says what the hardware is in the end.
Published == <>[](node.value = hardware)
=============================================================================
