#include "libshard/remote/http/http_settings.h"

#include <algorithm>
#include <cstdlib>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr const char* kPatienceVariable = "MOEPACK_PATIENCE";
// So that there are several tries within any patience.
constexpr double kPausesInPatience = 10;

RetryRule WithPatience(RetryRule rule, Seconds patience) {
  rule.patience = patience;
  rule.most = std::min(rule.most, patience / kPausesInPatience);
  rule.first = std::min(rule.first, rule.most);
  return rule;
}

}  // namespace

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsSwitchedOn(const char* name) {
  const std::string value = Lower(Environment(name));
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

Result<HttpSettings> SettingsFromEnvironment() {
  HttpSettings settings;
  settings.ca_file = Environment("CURL_CA_BUNDLE");
  if (settings.ca_file.empty()) settings.ca_file = Environment("SSL_CERT_FILE");
  settings.ca_path = Environment("SSL_CERT_DIR");
  const std::string patience = Environment(kPatienceVariable);
  if (patience.empty()) return settings;
  const auto seconds = ParseUint(patience);
  if (!seconds) {
    return Error{Code::kInvalidArgument,
                 Cat(kPatienceVariable, ": expected a number of seconds, found ", Quoted(patience)),
                 "set it to whole seconds (300), or unset it"};
  }
  settings.retry = WithPatience(settings.retry, Seconds(static_cast<double>(*seconds)));
  return settings;
}

}  // namespace moepack::remote
