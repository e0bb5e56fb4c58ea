// Settings with short timeouts.
#pragma once

#include "libshard/remote/http/http_client.h"

namespace moepack::remote {

inline HttpSettings QuickSettings() {
  HttpSettings settings;
  settings.retry.first = settings.retry.most = Seconds(0.001);
  settings.stall_seconds = 20;
  settings.connect_seconds = 5;
  return settings;
}

inline HttpClientPtr QuickClient(HttpSettings settings = QuickSettings()) {
  return std::make_shared<HttpClient>(std::move(settings));
}

}  // namespace moepack::remote
