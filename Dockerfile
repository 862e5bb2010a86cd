# ctc-align as an image.
#
#   docker build -t ctc-align .                                        without PyTorch
#   docker build -t ctc-align:cuda --build-arg TORCH=cu130 .           with PyTorch, for NVIDIA's cards
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" ctc-align talk.wav talk.txt
#   docker run --rm -p 127.0.0.1:8571:8571 -v "$PWD:/data" ctc-align serve --host 0.0.0.0 .     built with EXTRAS=[serve]
#
# The last one prints the address with its token, for 127.0.0.1 in place of 0.0.0.0; -e CTC_ALIGN_TOKEN chooses it.
#
# It is made to run as any user, also with --read-only --tmpfs /tmp and --network none. Where a named volume is mounted at
# /var/cache/ctc-align, compiled kernels are kept from run to run; without one each run of a long recording compiles.

ARG PYTHON=3.13
FROM python:${PYTHON}-slim-bookworm AS build

# nothing: no PyTorch; or its name for a build: cpu, or a version of CUDA
ARG TORCH=
# extras, such as [serve] or [serve,hf]
ARG EXTRAS=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/ctc-align
ENV PATH=/opt/ctc-align/bin:$PATH
RUN if [ -n "${TORCH}" ]; then pip install --index-url "https://download.pytorch.org/whl/${TORCH}" "torch>=2.10"; fi
COPY pyproject.toml README.md LICENSE THIRD_PARTY.md /source/
COPY configs /source/configs
COPY examples /source/examples
COPY ctc_align /source/ctc_align
RUN pip install "/source${EXTRAS}" && pip uninstall --yes pip
# tests and headers of other packages: some 250 MB, of which nothing is used
WORKDIR /opt/ctc-align/lib
RUN rm -rf python*/site-packages/torch/test python*/site-packages/torch/include \
        python*/site-packages/numba/tests python*/site-packages/numpy/*/tests \
        python*/site-packages/sympy/*/tests python*/site-packages/networkx/*/tests \
    && find . -path './python*/site-packages/torch/bin/*' -type f ! -name torch_shm_manager -delete

FROM python:${PYTHON}-slim-bookworm

ARG TORCH=
# Triton builds its launcher with a C compiler, on the machine that has the card.
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN if [[ "${TORCH}" == cu* ]]; then \
        apt-get update \
        && apt-get install --yes --no-install-recommends gcc libc6-dev \
        && rm -rf /var/lib/apt/lists/*; \
    fi \
    && useradd --uid 1000 --create-home ctc \
    # of any --user, each with a folder of their own in it; what is compiled in a container stays in it, or in the volume
    # that is mounted here
    && install --directory --mode=1777 /var/cache/ctc-align \
    && install --directory --owner=ctc --group=ctc /data
COPY --from=build /opt/ctc-align /opt/ctc-align
ENV PATH=/opt/ctc-align/bin:$PATH \
    NUMBA_CACHE_DIR=/var/cache/ctc-align \
    TRITON_CACHE_DIR=/var/cache/ctc-align \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
WORKDIR /data
# what is built must work: aligns the demo recording, and fails where its words are not where they should be
RUN CTC_ALIGN_NO_BACKGROUND=1 ctc-align doctor && rm -rf /var/cache/ctc-align/*
ENTRYPOINT ["ctc-align"]
CMD ["--help"]
