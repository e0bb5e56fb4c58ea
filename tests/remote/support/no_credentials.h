// An anonymous user.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manifest/registry/server/authorizer.h"

namespace moepack::registry {

class NoCredentials final : public Authorizer {
 public:
  Result<std::string> HeaderFor(const std::vector<std::string>&) override { return std::string(); }
  Result<bool> Refused(const remote::HttpReply&, const std::vector<std::string>&,
                       const std::string&) override {
    return false;
  }
  std::string Shown() const override { return "no credentials"; }
};

}  // namespace moepack::registry
