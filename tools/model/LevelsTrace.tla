---------------------------- MODULE LevelsTrace ----------------------------
(* Whether what simulated controllers made of nodes that lose a label is something that Levels allows. The module Trace, *)
(* which a program writes, has the passes over one ClusterTopology after another, each with what it read and decided.   *)
(*                                                                                                                      *)
(* Assumed: what a pass sees of nodes and workloads is what is there, so that a watch that lags is a cluster that        *)
(* changes later. Whether a watch tells the truth in the end is for the judge of the simulation.                        *)
EXTENDS Levels, Sequences, Trace

VARIABLE step

Status == [level |-> level, expired |-> expired, retained |-> retained]

\* Init, as a step.
Start(event) ==
  /\ carried' = event.carried /\ shown' = event.shown /\ absence' = -1 /\ memory' = -1 /\ left' = -1
  /\ level' = event.read.level /\ expired' = event.read.expired /\ retained' = event.read.retained
  /\ bound' = event.bound /\ retain' = event.retain /\ looked' = FALSE /\ faults' = Faults

\* Whether what a pass decided was stored is seen by what the next one reads.
Do(event) ==
  CASE event.action = "Start" -> Start(event)
    [] event.action = "Pass" -> Status = event.read /\ Decided = event.decided /\ Passes
    [] event.action = "Wait" -> Wait(event.time)
    [] event.action = "Restart" -> Restart
    [] event.action = "Nodes" -> Nodes
    [] event.action = "Watch" -> Watch
    [] event.action = "Workloads" -> Workloads
    [] event.action = "Policy" -> Policy

Seen(event) == carried = event.carried /\ shown = event.shown /\ bound = event.bound /\ retain = event.retain

TraceInit == Init /\ step = 0
TraceNext == step < Len(Steps) /\ step' = step + 1 /\ Do(Steps[step + 1]) /\ Seen(Steps[step])'
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, step>>

\* As in LeadershipTrace.
NotAllowed == step < Len(Steps)
=============================================================================
