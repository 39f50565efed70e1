"""A Serve application that names the language of a text: POST / with the text, back comes JSON."""

import json
import math
import os
import pathlib
from collections import Counter

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

SAMPLES = pathlib.Path(__file__).with_name("languages.json")
LARGEST_TEXT = 100_000  # bytes


class Classifier:
    """Naive Bayes on pairs of letters, learned from a few sentences of each language."""

    def __init__(self, samples):
        """samples: language -> text."""
        counts = {language: Counter(_pairs(text)) for language, text in samples.items()}
        known = set().union(*counts.values())
        self.weights, self.unseen = {}, {}
        for language, count in counts.items():
            total = count.total() + len(known) + 1
            self.weights[language] = {pair: math.log((n + 1) / total) for pair, n in count.items()}
            self.unseen[language] = math.log(1 / total)

    def probabilities(self, text):
        """How probable each language is: language -> 0 to 1, together 1."""
        pairs = _pairs(text)
        scores = {
            language: sum(weights.get(pair, self.unseen[language]) for pair in pairs)
            for language, weights in self.weights.items()
        }
        best = max(scores.values())
        parts = {language: math.exp(score - best) for language, score in scores.items()}
        return {language: part / sum(parts.values()) for language, part in parts.items()}


def _pairs(text):
    words = "".join(letter if letter.isalpha() else " " for letter in text.lower()).split()
    return [a + b for word in words for a, b in zip(f" {word}", f"{word} ")]


@serve.deployment
class Languages:
    """Each replica learns when it starts, which takes a few milliseconds."""

    def __init__(self):
        self.classifier = Classifier(json.loads(SAMPLES.read_text(encoding="utf-8")))

    async def __call__(self, request: Request):
        body = await request.body()
        if len(body) > LARGEST_TEXT:
            return JSONResponse({"error": f"the text has {len(body)} bytes, more than {LARGEST_TEXT}"}, status_code=413)
        probabilities = self.classifier.probabilities(body.decode("utf-8", errors="replace"))
        language = max(probabilities, key=probabilities.get)
        return {"language": language, "probability": round(probabilities[language], 3), "replica": os.getpid()}


app = Languages.bind()
