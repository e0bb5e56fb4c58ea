// The built moepack on fixtures/tiny-moe, and a local docker-registry.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/remote/support/docker_registry.h"
#include "tests/remote/support/remote_commands.h"
#include "tests/remote/support/scoped_variable.h"
#include "tests/tools/run_moepack.h"

namespace moepack::remote {

// "out" is a distribution of three groups and an overlay.
class RegistryCommands : public testing::Test {
 protected:
  void SetUp() override {
    if (!DockerRegistry::IsInstalled()) GTEST_SKIP() << "docker-registry is not installed";
    registry_.emplace(workspace_ / "registry", RegistrySettings());
    ASSERT_TRUE(registry_->started()) << registry_->Log();
    Build("fixtures/tiny-overlay.json", "out");
  }
  virtual DockerRegistry::Settings RegistrySettings() const { return {}; }
  void Build(const std::string& overlay, const std::string& out) {
    Runs("build fixtures/tiny-moe --groups 3 --overlay-file " + overlay + " --quantize Q4_K_M -o " +
         out);
  }
  // Runs and expects status 0.
  cli::ToolRun Runs(const std::string& arguments) const {
    cli::ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err;
    return run;
  }
  std::string Ref(const std::string& tag, const std::string& repository = "team/model") const {
    return "oci://" + registry_->host() + "/" + repository + ":" + tag;
  }
  // Publishes, and returns the report.
  nlohmann::json Publish(const std::string& out, const std::string& reference,
                         const std::string& more = "") const {
    return workspace_.Json("publish " + out + " " + reference + " --json " + more);
  }
  // The digests of blobs that were requested by GET since Forget().
  std::set<std::string> BlobsFetched() const {
    std::set<std::string> digests;
    for (const DockerRegistry::Request& request : registry_->requests()) {
      const size_t at = request.path.find("/blobs/sha256:");
      if (request.method == "GET" && at != std::string::npos)
        digests.insert(request.path.substr(at + 7, 71));
    }
    return digests;
  }
  // Requests that start to send a blob, or mount one.
  size_t UploadsBegun() const {
    const auto requests = registry_->requests();
    return static_cast<size_t>(
        std::count_if(requests.begin(), requests.end(), [](const DockerRegistry::Request& request) {
          return request.method == "POST" && request.path.find("/uploads/") != std::string::npos;
        }));
  }
  // The last lines of the log are written after the replies.
  void SettleLog() const { Runs("ls oci://" + registry_->host() + "/team/model"); }
  // For every blob of a report: its digest by name.
  static std::map<std::string, std::string> DigestsOf(const nlohmann::json& report) {
    std::map<std::string, std::string> digests;
    for (const auto& blob : report["blobs"]) digests[blob["blob"]] = blob["digest"];
    return digests;
  }
  std::string Content(const std::string& directory) const {
    return ContentOf(workspace_ / directory);
  }

  cli::Workspace workspace_;
  std::optional<DockerRegistry> registry_;
  // Nothing from the user's environment, and little patience, so that tries are soon over.
  ScopedVariable patience_{"MOEPACK_PATIENCE", "1"}, home_{"HOME", workspace_ / "home"},
      docker_{"DOCKER_CONFIG", workspace_ / "none"},
      runtime_{"XDG_RUNTIME_DIR", workspace_ / "none"},
      config_{"XDG_CONFIG_HOME", workspace_ / "none"}, state_{"XDG_STATE_HOME", ""},
      login_file_{"REGISTRY_AUTH_FILE", ""}, login_user_{"MOEPACK_REGISTRY_USERNAME", ""},
      login_password_{"MOEPACK_REGISTRY_PASSWORD", ""}, login_token_{"MOEPACK_REGISTRY_TOKEN", ""},
      proxy_{"http_proxy", ""}, all_proxy_{"all_proxy", ""};
};

}  // namespace moepack::remote
