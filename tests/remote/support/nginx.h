// nginx as a server of tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moepack::remote {

// The command that starts it on 127.0.0.1:`port`, for RealServer. Everything that it writes is in
// `directory`, which is created: error.log, and what `http` requests.
// `listen`: after the port ("ssl http2"); `server`: directives of the only server; `http`: those
// around it.
std::vector<std::string> NginxCommand(const std::filesystem::path& directory, uint16_t port,
                                      const std::string& listen, const std::string& server,
                                      const std::string& http = "access_log off;\n");

}  // namespace moepack::remote
