"""Stand-in for the clients of the published Flower scenarios: the same command line, softmax regression on points."""

import argparse
import os

import flwr
import numpy as np

FEATURES, CLASSES, SAMPLES, STEPS, RATE = 32, 4, 256, 10, 0.1


class Client(flwr.client.NumPyClient):
    """One client, with samples of its own around centres that all share."""

    def __init__(self) -> None:
        own = np.random.default_rng(os.getpid())
        centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
        self.labels = own.integers(CLASSES, size=SAMPLES)
        self.points = centres[self.labels] + own.normal(size=(SAMPLES, FEATURES))

    def get_parameters(self, config):
        return [np.zeros((FEATURES, CLASSES))]

    def fit(self, parameters, config):
        weights = parameters[0].copy()
        for _ in range(STEPS):
            chances = self.chances(weights)
            chances[np.arange(SAMPLES), self.labels] -= 1
            weights -= RATE * self.points.T @ chances / SAMPLES
        return [weights], SAMPLES, {}

    def evaluate(self, parameters, config):
        right = self.chances(parameters[0])[np.arange(SAMPLES), self.labels]
        return float(-np.log(right + 1e-12).mean()), SAMPLES, {}

    def chances(self, weights):
        scores = self.points @ weights
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server_address", required=True)
    for name in ("model", "client", "compression", "path_to_encoder_weights", "dataset", "randomized_quantization"):
        parser.add_argument(f"--{name}", required=True)
    flwr.client.start_client(server_address=parser.parse_args().server_address, client=Client().to_client())


if __name__ == "__main__":
    main()
