# docker build -t kbeval .
# docker run --rm -v "$PWD:/work" kbeval evaluate
FROM python:3.11-slim AS build
WORKDIR /build
COPY . .
RUN python -m venv /opt/kbeval \
    && /opt/kbeval/bin/python -m pip install --no-cache-dir --constraint requirements.txt .

FROM python:3.11-slim
# The one who owns what is written to /work: docker build --build-arg UID="$(id -u)". PostgreSQL wants a user that has a
# name, and none that is root: docker run --user with another number does not do.
ARG UID=1000
RUN useradd --create-home --uid "$UID" kbeval \
    && mkdir /work \
    && chown kbeval /work
COPY --from=build /opt/kbeval /opt/kbeval
ENV PATH="/opt/kbeval/bin:$PATH"
USER kbeval
WORKDIR /work
ENTRYPOINT ["kbeval"]
CMD ["--help"]
