#!/bin/bash
# The first process of a node, in namespaces of its own: containerd, and kubelet while the file `want-kubelet` is there.
#
#   unshare --mount --pid --fork --kill-child --mount-proc --net --uts tests/e2e/node.sh FOLDER NAME ADDRESS KUBELET IMAGE...
#
# FOLDER holds containerd.toml, kubelet.yaml and the kubeconfig, and takes the logs. Bash reaps what containerd leaves behind.
set -eu
folder=$1 name=$2 address=$3 kubelet=$4; shift 4

mount --make-rshared /
hostname "$name"
mkdir -p /var/lib/cni
for kept_apart in /run /var/log /var/lib/cni; do mount -t tmpfs -o mode=755 tmpfs "$kept_apart"; done
mkdir -p /run/containerd /var/log/containers

containerd --config "$folder/containerd.toml" > "$folder/containerd.log" 2>&1 &
until ctr version > /dev/null 2>&1; do sleep 0.1; done
for image in "$@"; do ctr --namespace k8s.io images import "$image"; done > "$folder/import.log" 2>&1
touch "$folder/imported"

while :; do
  if [ -e "$folder/want-kubelet" ]; then
    # With its address: without, kubelet asks a resolver for 20 s, and there is none.
    "$kubelet" --config "$folder/kubelet.yaml" --kubeconfig "$folder/kubeconfig" --hostname-override "$name" \
      --node-ip "$address" --root-dir "$folder/kubelet" --node-labels nvidia.com/gpu.present=true >> "$folder/kubelet.log" 2>&1 || true
  fi
  sleep 0.2
done
