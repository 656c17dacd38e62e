# One image for both programs: `agent` and `controller` are subcommands of its entry point.
#
#   docker build -t toposcope:0.1.0 .
#   docker build --build-arg PYTHON_TAG=3.13-slim-trixie --build-arg PYTHON_DIGEST=sha256:… .    # for a release

ARG PYTHON_TAG=3.13-slim-trixie
# Empty, or sha256:… to hold the base to one content.
ARG PYTHON_DIGEST=

ARG NODE_TAG=24-trixie-slim
ARG NODE_DIGEST=

# The page of `toposcope ui`: files that browsers load. Nothing of Node gets into the image.
FROM node:${NODE_TAG}${NODE_DIGEST:+@${NODE_DIGEST}} AS page
WORKDIR /src/ui/page
COPY ui/page/package.json ui/page/package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY ui/page ./
RUN node build.mjs

FROM python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}} AS build
# Docstrings would be more than 1 MB of every agent's memory, and which columns a line of a traceback means some more.
# Bytecode is compiled for these settings, in both stages.
ENV PYTHONOPTIMIZE=2 PYTHONNODEBUGRANGES=1
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# Dependencies first: they change less often than the sources. The lock file's hashes are all that may be installed.
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/toposcope \
    && pip --python /opt/toposcope/bin/python install --require-hashes --only-binary :all: -r requirements.lock

COPY . .
COPY --from=page /src/ui/static ui/static
RUN pip wheel --no-deps --wheel-dir /tmp/wheel . \
    && pip --python /opt/toposcope/bin/python install --no-deps --no-index /tmp/wheel/*.whl \
    # The root file system is read-only in the cluster: what is not compiled here would be compiled at every start.
    # Nothing edits the sources, so nothing needs to compare them with their bytecode either.
    && python -m compileall -q -o 2 -j 0 --invalidation-mode unchecked-hash /opt/toposcope/lib

FROM python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}
ENV PYTHONOPTIMIZE=2 PYTHONNODEBUGRANGES=1
LABEL org.opencontainers.image.title="toposcope" \
      org.opencontainers.image.description="GPU topology discovery for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"

# The base image carries the standard library without bytecode, and pip, which a running pod has no use for.
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip \
    && rm -rf /usr/local/lib/python3.*/ensurepip \
    && python -m compileall -q -o 2 -j 0 --invalidation-mode unchecked-hash \
        -x '/(idlelib|lib2to3|pydoc_data|site-packages|test|tkinter|turtledemo)/' /usr/local/lib/python3.*

COPY --from=build /opt/toposcope /opt/toposcope
ENV PATH=/opt/toposcope/bin:$PATH \
    # Python speaks UTF-8 in this locale as in any other, and the C library loads no tables for it.
    LC_ALL=C \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["toposcope"]
