# syntax=docker/dockerfile:1

# The digest is left to the builder's registry; the tag names the exact interpreter and system.
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY requirements/runtime.lock .
# Every file is checked by its hash; bytecode is made now, as the root file system is read-only.
RUN python -m venv /opt/venv \
    && /opt/venv/bin/python -m pip install --no-deps --require-hashes -r runtime.lock \
    && /opt/venv/bin/python -m pip uninstall --yes pip setuptools

FROM python:3.11.14-slim-bookworm
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOST=0.0.0.0 \
    PORT=8000 \
    HF_HOME=/var/cache/huggingface \
    MPLCONFIGDIR=/tmp/matplotlib \
    MALLOC_ARENA_MAX=2
WORKDIR /srv
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin kvmath
COPY --from=build /opt/venv /opt/venv
COPY LICENSE gpu_catalog.json ./
COPY app app
RUN python -m compileall -q app
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["python", "-m", "app.healthcheck"]
# In exec form the server is process 1 and gets SIGTERM itself: it stops listening, then drains.
CMD ["python", "-m", "app"]
