---------------------------- MODULE LabelsTrace ----------------------------
(* Whether what simulated agents did to their Nodes' labels is something that Labels allows. The module Trace, which a  *)
(* program writes, has the steps of one machine after another, each with what was to be seen after it.                  *)
EXTENDS Labels, Sequences, Trace

VARIABLE step

\* Init, as a step.
Start(event) ==
  /\ hardware' = event.hardware /\ answers' = event.answers /\ node' = [uid |-> event.uid, value |-> event.value]
  /\ known' = NoNode /\ probed' = None /\ due' = TRUE /\ had' = {hardware'} /\ late' = NoNode /\ changes' = Changes

\* Whether an answer arrives is not seen.
Do(event) ==
  CASE event.action = "Start" -> Start(event)
    [] event.action = "Wake" -> Wake \/ (due /\ UNCHANGED vars)
    [] event.action = "Read" -> Read \/ UNCHANGED vars
    [] event.action = "Probe" -> Probe
    [] event.action = "Write" -> (Publish /\ known.uid = node.uid) \/ Lose
    [] event.action = "Refused" -> Publish \/ UNCHANGED vars
    [] event.action = "Lose" -> Lose \/ UNCHANGED vars
    [] event.action = "TakeLate" -> TakeLate \/ Publish \/ Lose
    [] event.action = "Crash" -> Crash
    [] event.action = "Others" -> Others

Seen(event) ==
  node = [uid |-> event.uid, value |-> event.value] /\ hardware = event.hardware /\ answers = event.answers

TraceInit == Init /\ step = 0
TraceNext == step < Len(Steps) /\ step' = step + 1 /\ Do(Steps[step + 1]) /\ Seen(Steps[step])'
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, step>>

\* As in LeadershipTrace.
NotAllowed == step < Len(Steps)
=============================================================================
