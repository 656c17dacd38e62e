------------------------------ MODULE Levels ------------------------------
(* One inferred level of a ClusterTopology: when it is reported as expired, and when it is taken from schedulers:    *)
(* toposcope/api/effective_levels.py and controller/assess.                                                          *)
(*                                                                                                                   *)
(* Assumed: a watch shows the nodes as they were at some time, and never goes back; the status holds what the last   *)
(* pass wrote; there is a pass a tick, and what comes and goes between two of them (a second) is not seen. Absences  *)
(* are a controller's only memory: the next leader counts them from its own first look.                              *)
EXTENDS Integers

CONSTANTS Grace,    \* spec.gracePeriod, in ticks
          Retain,   \* spec.removalPolicy: Retain
          Restarts  \* how often another controller may take over

VARIABLES
  carried,  \* whether a node carries the level's label: "yes", "no", or "none": there are no nodes, or none is listed
  shown,    \* the same, as the controller's watch shows it
  absence,  \* ticks for which every pass of every controller has seen nodes and no label; -1: the last one has not
  memory,   \* the same, as the controller remembers it
  level,    \* whether the level is in effect
  expired,  \* whether the status reports it as expired
  bound,    \* whether a workload requires it through Grove's binding
  looked,   \* whether the controller had its turn in this tick
  restarts

vars == <<carried, shown, absence, memory, level, expired, bound, looked, restarts>>

Init ==
  /\ carried = "yes" /\ shown = "yes" /\ absence = -1 /\ memory = -1
  /\ level = TRUE /\ expired = FALSE /\ bound \in BOOLEAN /\ looked = FALSE /\ restarts = Restarts

Begun(count) == IF count < 0 THEN 0 ELSE count
Older(count) == IF count < 0 \/ count > Grace THEN count ELSE count + 1

(* ---- The controller ---- *)

Pass ==
  /\ ~looked /\ looked' = TRUE
  /\ absence' = IF shown = "no" THEN Begun(absence) ELSE -1
  /\ memory' = IF shown = "no" THEN Begun(memory) ELSE -1
  /\ IF shown = "none"
     THEN UNCHANGED <<level, expired>>
     ELSE LET over == shown /= "yes" /\ (memory > Grace \/ expired)
          IN /\ level' = (shown = "yes" \/ (level /\ (~over \/ Retain \/ bound)))
             /\ expired' = (over /\ level')
  /\ UNCHANGED <<carried, shown, bound, restarts>>

Restart ==
  /\ restarts > 0 /\ restarts' = restarts - 1
  /\ memory' = -1 /\ shown' = carried
  /\ UNCHANGED <<carried, absence, level, expired, bound, looked>>

(* ---- The cluster ---- *)

Nodes == carried' \in {"yes", "no", "none"} /\ UNCHANGED <<shown, absence, memory, level, expired, bound, looked, restarts>>
Watch == shown' = carried /\ UNCHANGED <<carried, absence, memory, level, expired, bound, looked, restarts>>
Workloads == bound' = ~bound /\ UNCHANGED <<carried, shown, absence, memory, level, expired, looked, restarts>>

Tick ==
  /\ looked /\ looked' = FALSE
  /\ absence' = Older(absence) /\ memory' = Older(memory)
  /\ UNCHANGED <<carried, shown, level, expired, bound, restarts>>

Next == Pass \/ Restart \/ Nodes \/ Watch \/ Workloads \/ Tick
Spec == Init /\ [][Next]_vars /\ WF_vars(Pass) /\ WF_vars(Tick) /\ WF_vars(Watch)

(* ---- What must hold ---- *)

\* Nothing is reported as expired, or taken away, before its absence has been seen for the whole grace period.
Evidence == [][(expired' /\ ~expired) \/ (level /\ ~level' /\ ~expired) => absence > Grace]_vars

\* Nothing is taken away while a node that carries it is in sight, nor while there are no nodes.
InSight == [][level /\ ~level' => shown = "no"]_vars

\* What an administrator retains, or Grove's workloads require, stays.
Kept == [][level /\ ~level' => ~Retain /\ ~bound]_vars

\* A level that has gone for good is reported, and goes where it may.
Gone == <>[](carried = "no" /\ ~bound) => <>[](IF Retain THEN expired \/ ~level ELSE ~level)
=============================================================================
