// Programs that keep passwords: docker-credential-pass, -secretservice, -ecr-login and others. The
// protocol is that of github.com/docker/docker-credential-helpers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "manifest/registry/server/run_program.h"

namespace moepack::registry {

struct HelperAnswer {
  std::string user;    // "<token>" marks an identity token
  std::string secret;  // never in messages
};

// [A-Za-z0-9_.-]{1,200}: nothing that could be a path.
bool IsHelperName(std::string_view name);

// Runs `docker-credential-<name> get` with `server` on its standard input. No value if the helper
// has no credentials for this server. What a helper prints is only in messages if it says why it
// failed and reveals nothing that it knows. Errors: kInvalidArgument for an invalid name,
// kUnavailable for a helper that is missing or too slow, kIo for one that fails, kCorrupt for an
// invalid answer.
Result<std::optional<HelperAnswer>> AskCredentialHelper(const std::string& name,
                                                        const std::string& server,
                                                        const ProgramLimits& limits = {});

}  // namespace moepack::registry
