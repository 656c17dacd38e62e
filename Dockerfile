# One image for both programs: `agent` and `controller` are subcommands of its entry point.
#
#   docker build -t toposcope:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg PYTHON_DIGEST=sha256:… .    # for a release
#
# arm64 (GB200, GH200): every package has a manylinux wheel there too, so nothing is compiled, and native code is aligned
# for kernels with pages of 64 KiB, on which the programs take more memory: docs/install.md.

ARG PYTHON_TAG=3.13-slim-trixie
# Empty, or sha256:… (of the index, for several platforms) to hold the base to one content.
ARG PYTHON_DIGEST=

ARG NODE_TAG=24-trixie-slim
ARG NODE_DIGEST=

# The page of `toposcope ui`: files that browsers load. Nothing of Node gets into the image.
FROM node:${NODE_TAG}${NODE_DIGEST:+@${NODE_DIGEST}} AS page
WORKDIR /src/toposcope/ui/page
COPY toposcope/ui/page/package.json toposcope/ui/page/package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY toposcope/ui/page ./
RUN node build.mjs

FROM python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}} AS build
WORKDIR /src

# Dependencies first: they change less often than the sources.
COPY image image
RUN image/assemble.sh dependencies /opt/toposcope

COPY . .
COPY --from=page /src/toposcope/ui/static toposcope/ui/static
# Without the page the build ends here.
ENV TOPOSCOPE_RELEASE=1
RUN image/assemble.sh program /opt/toposcope

FROM python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}
# As the bytecode was compiled, here and there.
ENV PYTHONOPTIMIZE=2 PYTHONNODEBUGRANGES=1
LABEL org.opencontainers.image.title="toposcope" \
      org.opencontainers.image.description="GPU topology discovery for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"

# The base image carries the standard library without bytecode, and pip, which a running pod has no use for.
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip \
    && rm -rf /usr/local/lib/python3.*/ensurepip \
    && python -m compileall -q -o 2 -j 0 --invalidation-mode unchecked-hash \
        -x '/(idlelib|lib2to3|pydoc_data|site-packages|test|tkinter|turtledemo)/' /usr/local/lib/python3.* \
    # No way back to root, not even where a component has to allow privilege escalation.
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# With a bill of materials in share/sbom, in CycloneDX's format.
COPY --from=build /opt/toposcope /opt/toposcope
ENV PATH=/opt/toposcope/bin:$PATH \
    # Python speaks UTF-8 in this locale as in any other, and the C library loads no tables for it.
    LC_ALL=C \
    MALLOC_ARENA_MAX=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
# No shell: the entry point is run as it is, and it starts its workers without one.
ENTRYPOINT ["toposcope"]
