"""A client of Flower's for tests, which trains by torch: ``flower_client.py SERVER:PORT``."""

import sys

import flwr
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
points, labels = torch.randn(256, 32), torch.randint(4, (256,))
batches = DataLoader(TensorDataset(points, labels), batch_size=32)


class Client(flwr.client.NumPyClient):
    def get_parameters(self, config):
        return [each.detach().numpy().copy() for each in model.parameters()]

    def set_parameters(self, values):
        with torch.no_grad():
            for each, value in zip(model.parameters(), values, strict=True):
                each.copy_(torch.as_tensor(value))

    def fit(self, parameters, config):
        self.set_parameters(parameters)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for some, wanted in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(some), wanted).backward()
            optimizer.step()
        return self.get_parameters(config), len(points), {}

    def evaluate(self, parameters, config):
        self.set_parameters(parameters)
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model(points), labels)), len(points), {}


flwr.client.start_client(server_address=sys.argv[1], client=Client().to_client())
