#!/bin/sh
# What the image holds, put into a folder. The Dockerfile's build stage calls it, and so do the tests, which then start the
# programs out of that folder as a pod does. Needs a Python with venv, and a package index.
#
#   image/assemble.sh dependencies PREFIX    what it needs in a pod: only what runtime.lock has the hashes of
#   image/assemble.sh program PREFIX         Toposcope itself, and the bill of materials
#
# Two steps, because dependencies change less often than sources. PREFIX.tools holds what only the build needs.
set -eu

step=$1 prefix=$2 tools=$2.tools
here=$(cd "$(dirname "$0")" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
# In what is installed, not in the tools, some of which read docstrings.
# Docstrings would be more than 1 MB of every agent's memory, and which columns a line of a traceback means some more.
export PYTHONOPTIMIZE=2 PYTHONNODEBUGRANGES=1

# By module: the folders may be moved afterwards, and the commands in a virtual environment name the place where it was made.
tool() { env -u PYTHONOPTIMIZE "$tools/bin/python" -m "$@"; }
into_prefix() { tool pip --quiet --python "$prefix/bin/python" install "$@"; }

# The root file system is read-only in the cluster: what is not compiled here would be compiled at every start. Nothing edits
# the sources, so nothing needs to compare them with their bytecode either.
compile() { "$prefix/bin/python" -m compileall -q -o 2 -j 0 --invalidation-mode unchecked-hash "$@"; }

dependencies() {
  python3 -m venv "$tools"
  tool pip --quiet install --require-hashes --only-binary :all: -r "$here/build.lock"
  python3 -m venv --without-pip "$prefix"
  # No source may be built: on arm64 too each package with native code has a manylinux wheel.
  into_prefix --require-hashes --only-binary :all: -r "$here/runtime.lock"
  # What only tests, compilers and type checkers read.
  rm -rf "$prefix/include"
  find "$prefix/lib" -depth \( -name tests -o -name test \) -type d -exec rm -rf {} +
  find "$prefix/lib" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]' \) -exec rm {} +
  compile "$prefix/lib"
  touch "$tools/dependencies"
}

program() {
  tool pip --quiet wheel --no-deps --no-build-isolation --wheel-dir "$tools/wheel" "$here/.."
  into_prefix --no-deps --no-index "$tools"/wheel/toposcope-*.whl
  # Commands of others, and scripts for shells.
  find "$prefix/bin" -mindepth 1 ! -name 'python*' ! -name toposcope -exec rm -rf {} +
  find "$prefix/lib" -name '*.py' -newer "$tools/dependencies" > "$tools/sources"
  compile -i "$tools/sources"
  # The bill of materials. It takes name and version of what it describes from a project file; ours computes the version.
  version=$("$prefix/bin/toposcope" --version | cut -d ' ' -f 2)
  sed "s/^dynamic = .*/version = \"$version\"/" "$here/../pyproject.toml" > "$tools/pyproject.toml"
  mkdir -p "$prefix/share/sbom"
  tool cyclonedx_py environment --pyproject "$tools/pyproject.toml" --output-reproducible \
    --output-format JSON --output-file "$prefix/share/sbom/toposcope.cdx.json" "$prefix/bin/python"
}

case $step in
  dependencies | program) "$step" ;;
  *) echo "usage: $0 dependencies|program PREFIX" >&2; exit 2 ;;
esac
