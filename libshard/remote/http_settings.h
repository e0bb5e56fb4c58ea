// How servers are talked to: what the user and the environment say about it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "libshard/remote/retry.h"

namespace moepack::remote {

struct HttpSettings {
  bool plain_http = false;              // http to hosts other than this machine
  std::string ca_file, ca_path;         // "" for those of the system
  std::string ca_text;                  // PEM certificates in the place of ca_file; "" for none
  std::string client_cert, client_key;  // PEM files that say who we are; "" for none
  bool insecure = false;                // whoever answers is believed: the caller warns
  std::string user_agent = "moepack";
  RetryRule retry;
  size_t in_flight = 8;      // requests at once to one host
  uint64_t whole_files = 0;  // bytes in memory of files that a server gives only whole
  long stall_bytes = 1024;   // fewer per second than this,
  long stall_seconds = 30;   // for so long, is a stalled transfer
  long connect_seconds = 30;
  // A server may take so long over a body once it has all of it: it hashes and moves what it got.
  long answer_seconds = 900;
  // Told what the user should know and what does not stop the work; from any thread.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// The value of a variable, "" when it is not set.
std::string Environment(const char* name);
// "1", "true", "yes" and "on", in any case, as huggingface_hub reads switches.
bool IsSwitchedOn(const char* name);

// CA files from CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR; libcurl reads the variables of
// proxies by itself.
HttpSettings SettingsFromEnvironment();

}  // namespace moepack::remote
