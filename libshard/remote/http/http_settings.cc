#include "libshard/remote/http/http_settings.h"

#include <cstdlib>

#include "libshard/base/text/text.h"

namespace moepack::remote {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsSwitchedOn(const char* name) {
  const std::string value = Lower(Environment(name));
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

HttpSettings SettingsFromEnvironment() {
  HttpSettings settings;
  settings.ca_file = Environment("CURL_CA_BUNDLE");
  if (settings.ca_file.empty()) settings.ca_file = Environment("SSL_CERT_FILE");
  settings.ca_path = Environment("SSL_CERT_DIR");
  return settings;
}

}  // namespace moepack::remote
