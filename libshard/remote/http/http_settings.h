// How to talk to servers, from the user's options and the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http/retry.h"

namespace moepack::remote {

struct HttpSettings {
  bool plain_http = false;              // http to hosts other than this machine
  std::string ca_file, ca_path;         // "" for the system's
  std::string ca_text;                  // PEM certificates instead of ca_file; "" for none
  std::string client_cert, client_key;  // PEM files that identify us; "" for none
  bool insecure = false;                // no server is verified: the caller warns
  std::string user_agent = "moepack";
  RetryRule retry;
  size_t in_flight = 8;      // requests at once to one host
  uint64_t whole_files = 0;  // memory in bytes for files that a server delivers only whole
  // The command has --allow-full-download, so hints may name it.
  bool may_allow_whole_files = true;
  long stall_bytes = 1024;  // fewer bytes per second than this
  long stall_seconds = 30;  // for this long is a stalled transfer
  long connect_seconds = 30;
  // A server may take this long to answer once it has the whole body, because it hashes and moves
  // what it received.
  long answer_seconds = 900;
  bool compared = false;  // callers compare whole files with digests, so they notice any change
  // Called, from any thread, with what the user should know but does not stop the work.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// The value of a variable; "" if it is not set.
std::string Environment(const char* name);
// "1", "true", "yes" and "on", ignoring case, as huggingface_hub reads switches.
bool IsSwitchedOn(const char* name);

// CA files from CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR, and RetryRule::patience in whole
// seconds from MOEPACK_PATIENCE, of which no pause is longer than a tenth; libcurl itself reads the
// proxy variables. kInvalidArgument for a MOEPACK_PATIENCE that is no such number.
Result<HttpSettings> SettingsFromEnvironment();

}  // namespace moepack::remote
