// The page without data: what is missing, and how to get it.
import { figure, many } from "./map/text.ts";
import type { Cluster } from "./model/cluster.ts";
import { listOf } from "./model/table.ts";
import type { View } from "./protocol.ts";

interface Missing {
  readonly what: string;
  readonly steps: readonly (readonly [why: string, command: string])[];
}

const SAVE = "kubectl get nodes,pods,clustertopologies.gpu.topology -A -o json > cluster.json";
const PODS = "kubectl -n toposcope-system get daemonset,deployment,pods";

/** The first thing that is missing, from the nodes up; null where nothing is. */
export function missing({ table, otherNodes, source }: Cluster, view: View): Missing | null {
  const nodes = table.names.length;
  if (!nodes && !otherNodes) {
    return source === "files"
      ? { what: "The files contain no nodes.", steps: [["Save the cluster again:", SAVE]] }
      : { what: "The cluster has no nodes.", steps: [["Check with kubectl:", "kubectl get nodes"]] };
  }
  if (!nodes) {
    return {
      what: `None of the ${many(otherNodes, "node")} reports a GPU.`,
      steps: [
        [
          "Check what the nodes offer. If none has nvidia.com/gpu, install NVIDIA's device plugin or GPU Operator.",
          OFFERED,
        ],
        ["Check that the agents are running: an agent labels its node when it finds GPUs.", PODS],
      ],
    };
  }
  const unlabelled = table.names.every((_, node) => listOf(table.marks, node).includes("no-agent"));
  if (unlabelled) {
    return {
      what: `No agent has labelled ${nodes === 1 ? "the node" : `any of the ${figure(nodes)} nodes`} with GPUs.`,
      steps: [
        ["Check that Toposcope is installed and its agents are running. To install it, see docs/install.md.", PODS],
        ["If they are running, read their logs.", "kubectl -n toposcope-system logs daemonset/toposcope-agent"],
      ],
    };
  }
  if (view.kind === "inferred") {
    return {
      what: "There is no ClusterTopology: levels are inferred from labels, and nothing is published to schedulers.",
      steps: [
        ["Check that the CRD is installed. To install it, see docs/install.md.", CRD],
        ["If it is, generate a ClusterTopology for these nodes.", "toposcope suggest"],
      ],
    };
  }
  if (!view.nodes) {
    const name = view.parent ?? view.name;
    return {
      what: `ClusterTopology ${name} selects none of the ${many(nodes, "node")} with GPUs.`,
      steps: [
        ["Check its spec.nodeSelector.", `kubectl get clustertopology ${name} -o yaml`],
        ["Compare it with the nodes' labels.", "kubectl get nodes --show-labels"],
      ],
    };
  }
  return null;
}

const OFFERED = "kubectl get nodes -o custom-columns='NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu'";
const CRD = "kubectl get crd clustertopologies.gpu.topology";
