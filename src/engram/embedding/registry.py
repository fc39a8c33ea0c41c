"""The registry of models: their identities, the sources of their files, and pinned hashes.

The same content may be formatted differently in two sources (of the tokenizers in packages, one has
other line ends and one no indentation), so each source has a hash of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from engram.embedding.port import Calibration, CosineScale, EmbedderIdentity
from engram.errors import NotFoundError
from engram.model.value import Value

SEARCH_PREFIX = "Represent this sentence for searching relevant passages: "
BERT_TOKENS_MAX = 510
"""The window of 512 less two special tokens."""


class PinnedFile(Value, kw_only=False):
    """The path of a file in one source, with its pinned size and hash."""

    path: str
    size_bytes: int
    sha256: str


class ModelFile(Value, kw_only=False):
    """A file of a model, under the name by which it is installed."""

    name: str
    hub: PinnedFile
    carried: PinnedFile | None = None

    def variants(self) -> Iterator[PinnedFile]:
        """Yield all accepted variants of this file."""
        yield self.hub
        if self.carried is not None:
            yield self.carried


class KnownModel(Value, kw_only=False):
    """A model of the registry, with everything needed to download, verify and run it."""

    identity: EmbedderIdentity
    kind: Literal["onnx", "static"]
    licence: str
    hub_repository: str
    hub_revision: str
    files: tuple[ModelFile, ...]
    calibration: Calibration
    carrier: str | None = None
    """A pinned package whose wheel happens to contain the same files; it is never installed."""
    projection: str | None = None
    """A file of this package that turns outputs for tokens into vectors; see `bench.projection`."""

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def size_bytes(self) -> int:
        return sum(file.hub.size_bytes for file in self.files)


def known_model(name: str) -> KnownModel:
    """Return the model called `name`.

    Raises:
        NotFoundError: it is not in the registry.
    """
    for model in MODELS:
        if model.name == name:
            return model
    raise NotFoundError("model", name)


def calibration_of(identity: EmbedderIdentity) -> Calibration:
    """Return the scales of an identity's cosines; a middle one for models that were not measured."""
    served = _short_name(identity.name)
    for model in MODELS:
        if _short_name(model.name) == served:
            return model.calibration
    return UNMEASURED


def prefixes_of(served: str) -> tuple[str, str]:
    """Return the query and passage prefix of a model, under any name that a service gives it."""
    for model in MODELS:
        if _short_name(model.name) == _short_name(served):
            return model.identity.query_prefix, model.identity.passage_prefix
    return "", ""


def _short_name(name: str) -> str:
    """Return `Owner/Model:tag` as `model`."""
    return name.rpartition("/")[2].partition(":")[0].casefold()


ARCTIC_SCALES = Calibration(message=CosineScale(0.45, 0.27), neighborhood=CosineScale(0.55, 0.15))
POTION_SCALES = Calibration(message=CosineScale(-0.10, 0.75), neighborhood=CosineScale(0.10, 0.60))
UNMEASURED = Calibration(message=CosineScale(0.25, 0.40), neighborhood=CosineScale(0.35, 0.30))

_BGE_TOKENIZER = ModelFile(
    name="tokenizer.json",
    hub=PinnedFile(
        path="tokenizer.json",
        size_bytes=711_396,
        sha256="d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
    ),
)

ARCTIC = KnownModel(
    identity=EmbedderIdentity(
        name="snowflake-arctic-embed-s",
        revision="f93ff225320628d2",
        dimensions=384,
        max_tokens=BERT_TOKENS_MAX,
        query_prefix=SEARCH_PREFIX,
        passage_prefix="",
        pooling="cls",
    ),
    kind="onnx",
    licence="Apache-2.0",
    hub_repository="Snowflake/snowflake-arctic-embed-s",
    hub_revision="e596f507467533e48a2e17c007f0e1dacc837b33",
    carrier="bot-brain==0.8.0",
    projection="arctic_tokens.npy",
    calibration=ARCTIC_SCALES,
    files=(
        ModelFile(
            name="model.onnx",
            hub=PinnedFile(
                path="onnx/model_quantized.onnx",
                size_bytes=34_015_111,
                sha256="f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
            ),
            carried=PinnedFile(
                path="project_brain/model/int8/onnx/model.onnx",
                size_bytes=34_015_111,
                sha256="f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
            ),
        ),
        ModelFile(
            name="tokenizer.json",
            hub=PinnedFile(
                path="tokenizer.json",
                size_bytes=711_649,
                sha256="91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
            ),
            carried=PinnedFile(
                path="project_brain/model/int8/tokenizer.json",
                size_bytes=742_332,
                sha256="87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
            ),
        ),
    ),
)

POTION = KnownModel(
    identity=EmbedderIdentity(
        name="potion-base-8M",
        revision="f65d0f325faadc1e",
        dimensions=256,
        max_tokens=1_000_000,
        query_prefix="",
        passage_prefix="",
        pooling="mean",
    ),
    kind="static",
    licence="MIT",
    hub_repository="minishlab/potion-base-8M",
    hub_revision="bf8b056651a2c21b8d2565580b8569da283cab23",
    carrier="archguard==1.6.3",
    calibration=POTION_SCALES,
    files=(
        ModelFile(
            name="model.safetensors",
            hub=PinnedFile(
                path="model.safetensors",
                size_bytes=30_236_760,
                sha256="f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
            ),
            carried=PinnedFile(
                path="archguard/models/potion-base-8M/model.safetensors",
                size_bytes=30_236_760,
                sha256="f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
            ),
        ),
        ModelFile(
            name="tokenizer.json",
            hub=PinnedFile(
                path="tokenizer.json",
                size_bytes=683_666,
                sha256="e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
            ),
            carried=PinnedFile(
                path="archguard/models/potion-base-8M/tokenizer.json",
                size_bytes=446_303,
                sha256="273ca9e28ec6990aea6206b0364443754d87e87a5dd28e94026ea9999ba3bf62",
            ),
        ),
    ),
)

BGE_SMALL = KnownModel(
    identity=EmbedderIdentity(
        name="bge-small-en-v1.5",
        revision="828e1496d7fabb79",
        dimensions=384,
        max_tokens=BERT_TOKENS_MAX,
        query_prefix=SEARCH_PREFIX,
        passage_prefix="",
        pooling="cls",
    ),
    kind="onnx",
    licence="MIT",
    hub_repository="BAAI/bge-small-en-v1.5",
    hub_revision="5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
    calibration=ARCTIC_SCALES,
    files=(
        ModelFile(
            name="model.onnx",
            hub=PinnedFile(
                path="onnx/model.onnx",
                size_bytes=133_093_490,
                sha256="828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
            ),
        ),
        _BGE_TOKENIZER,
    ),
)

BGE_BASE = KnownModel(
    identity=EmbedderIdentity(
        name="bge-base-en-v1.5",
        revision="9bc579acdba21c25",
        dimensions=768,
        max_tokens=BERT_TOKENS_MAX,
        query_prefix=SEARCH_PREFIX,
        passage_prefix="",
        pooling="cls",
    ),
    kind="onnx",
    licence="MIT",
    hub_repository="BAAI/bge-base-en-v1.5",
    hub_revision="a5beb1e3e68b9ab74eb54cfd186867f64f240e1a",
    calibration=ARCTIC_SCALES,
    files=(
        ModelFile(
            name="model.onnx",
            hub=PinnedFile(
                path="onnx/model.onnx",
                size_bytes=435_811_539,
                sha256="9bc579acdba21c253c62a9bf866891355a63ffa3442b52c8a37d75b2ccb91848",
            ),
        ),
        _BGE_TOKENIZER,
    ),
)

MODELS = (ARCTIC, POTION, BGE_SMALL, BGE_BASE)
