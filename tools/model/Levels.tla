------------------------------ MODULE Levels ------------------------------
(* One inferred level of a ClusterTopology: when it is reported as expired, when Grove's binding keeps it for          *)
(* workloads, and when it is taken from schedulers: toposcope/hierarchy/effective_levels.py and controller/assess.     *)
(*                                                                                                                   *)
(* Assumed: a watch shows the nodes as they were at some time; a pass reads the status that was stored last; there is  *)
(* a pass a tick, and what comes and goes between two of them (a second) is not seen. Absences are a controller's only *)
(* memory: the next leader counts them from its own first look.                                                        *)
EXTENDS Integers

CONSTANTS Grace,  \* spec.gracePeriod, in ticks
          Faults  \* how often another controller takes over, or a pass ends before its status is stored

VARIABLES
  carried,   \* who carries the level's label: "most" nodes (spec.minCoveragePercent), "few", "no" node, or "none" is there
  shown,     \* the same, as the controller's watch shows it
  absence,   \* ticks for which every pass of every controller has seen nodes and no label; -1: the last one has not
  memory,    \* the same, as the controller remembers it
  left,      \* ticks for which it has seen that no workload requires the level that the binding keeps; -1: not at all
  level,     \* whether the level is in effect
  expired,   \* whether the status reports it as expired
  retained,  \* whether the status says that Grove's binding keeps it for workloads
  bound,     \* whether a workload requires it through that binding: "yes", "no", "unknown" where nobody answers
  retain,    \* spec.removalPolicy: Retain
  looked,    \* whether the controller had its turn in this tick
  faults

vars == <<carried, shown, absence, memory, left, level, expired, retained, bound, retain, looked, faults>>
Everybody == {"most", "few", "no", "none"}

Init ==
  /\ carried = "most" /\ shown = "most" /\ absence = -1 /\ memory = -1 /\ left = -1
  /\ level = TRUE /\ expired = FALSE /\ retained = FALSE /\ bound = "no" /\ retain \in BOOLEAN
  /\ looked = FALSE /\ faults = Faults

Begun(count) == IF count < 0 THEN 0 ELSE count
Older(count, time) == IF count < 0 \/ count > Grace THEN count ELSE count + time

(* ---- The controller ---- *)

Over == level /\ shown = "no" /\ (memory > Grace \/ expired)
Asked == Over /\ ~retain /\ bound /= "unknown"
Held == Over /\ ~retain /\ (bound /= "no" \/ (retained /\ left <= Grace))

\* What a pass makes of what it sees; of no nodes it makes nothing.
Decided ==
  IF shown = "none" THEN [level |-> level, expired |-> expired, retained |-> retained]
  ELSE [level |-> shown = "most" \/ (level /\ (~Over \/ retain \/ Held)), expired |-> Over /\ (retain \/ Held), retained |-> Held]

Pass(stored) ==
  /\ ~looked /\ looked' = TRUE
  /\ absence' = IF shown = "no" THEN Begun(absence) ELSE -1
  /\ memory' = IF shown = "no" THEN Begun(memory) ELSE -1
  /\ left' = IF Asked THEN (IF retained /\ bound = "no" THEN Begun(left) ELSE -1) ELSE IF Over \/ shown = "none" THEN left ELSE -1
  /\ IF stored
     THEN level' = Decided.level /\ expired' = Decided.expired /\ retained' = Decided.retained /\ UNCHANGED faults
     ELSE faults > 0 /\ faults' = faults - 1 /\ UNCHANGED <<level, expired, retained>>
  /\ UNCHANGED <<carried, shown, bound, retain>>

Restart ==
  /\ faults > 0 /\ faults' = faults - 1
  /\ memory' = -1 /\ left' = -1 /\ shown' = carried
  /\ UNCHANGED <<carried, absence, level, expired, retained, bound, retain, looked>>

(* ---- The cluster ---- *)

Others == UNCHANGED <<absence, memory, left, level, expired, retained, looked, faults>>
Nodes == carried' \in Everybody /\ Others /\ UNCHANGED <<shown, bound, retain>>
Watch == shown' = carried /\ Others /\ UNCHANGED <<carried, bound, retain>>
Workloads == bound' \in {"yes", "no", "unknown"} /\ Others /\ UNCHANGED <<carried, shown, retain>>
Policy == retain' = ~retain /\ Others /\ UNCHANGED <<carried, shown, bound>>

Wait(time) ==
  /\ looked /\ looked' = FALSE
  /\ absence' = Older(absence, time) /\ memory' = Older(memory, time) /\ left' = Older(left, time)
  /\ UNCHANGED <<carried, shown, level, expired, retained, bound, retain, faults>>

Passes == \E stored \in BOOLEAN : Pass(stored)
Tick == Wait(1)
Next == Passes \/ Restart \/ Nodes \/ Watch \/ Workloads \/ Policy \/ Tick
Spec == Init /\ [][Next]_vars /\ WF_vars(Passes) /\ WF_vars(Tick) /\ WF_vars(Watch)

(* ---- What must hold ---- *)

\* Nothing is reported as expired, or taken away, before its absence has been seen for the whole grace period.
Evidence == [][(expired' /\ ~expired) \/ (level /\ ~level' /\ ~expired) => absence > Grace]_vars

\* Nothing is taken away while a node that carries it is in sight, nor while there are no nodes.
InSight == [][level /\ ~level' => shown = "no"]_vars

\* What an administrator retains, or Grove's workloads require, or have required within the grace period, or may require
\* while nobody can tell, stays.
Kept == [][level /\ ~level' => ~retain /\ bound = "no" /\ (retained => left > Grace)]_vars

\* A level that has gone for good is reported, and goes where it may.
Gone ==
  \A keep \in BOOLEAN : <>[](carried = "no" /\ bound = "no" /\ retain = keep) => <>[](~level \/ (keep /\ expired))
=============================================================================
