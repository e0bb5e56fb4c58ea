// fixtures/tiny-moe on a local Hub and web server, for the built moepack.
#pragma once

#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {

class OriginCommands : public testing::Test {
 protected:
  OriginCommands() {
    hub_.AddDirectory(workspace_ / "fixtures/tiny-moe");
    server_.AddDirectory("/tiny-moe/", workspace_ / "fixtures/tiny-moe");
    server_.SetListing(true);
  }
  std::string address() const { return server_.origin() + "/tiny-moe/"; }
  nlohmann::json SourcesOf(const std::string& directory) const {
    const auto manifest =
        nlohmann::json::parse(cli::ReadFile(workspace_ / directory / "distribution.json"));
    return manifest["model"]["source"];
  }

  cli::Workspace workspace_;
  FakeHub hub_;
  FaultServer server_;
  ScopedVariable home_{"HF_HOME", workspace_ / "hf"}, endpoint_{"HF_ENDPOINT", hub_.endpoint()};
};

}  // namespace moepack::remote
