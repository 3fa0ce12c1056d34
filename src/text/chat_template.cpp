#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace strata::text {
namespace {

// What a template says of itself, or of a message, must stay one line.
constexpr size_t k_max_reason = 400;

// Published templates stay below 50 KB; this bounds the time that parsing takes.
constexpr size_t k_max_source = size_t{1} << 20;

// Deeper than this the stack of a thread might not hold.
constexpr uint32_t k_depth_ceiling = 400;

std::string message_of(const std::string& name, const jinja::Failure& failure) {
  return fmt::format("{}: line {}: {}", printable(name), failure.line,
                     printable(failure.reason, k_max_reason));
}

}  // namespace

struct ChatTemplate::Impl {
  std::string name;
  jinja::Tree tree;

  jinja::Text render(const Json& variables, const RenderOptions& options) const {
    if (!variables.is_object()) {
      fail(ErrorCode::bad_request, "{}: the variables must be an object, not {}", printable(name),
           variables.type_name());
    }
    jinja::Limits limits;
    limits.steps = options.limits.max_steps;
    limits.bytes = options.limits.max_bytes;
    limits.calls = std::min(options.limits.max_depth, k_depth_ceiling);
    jinja::Runtime runtime(limits, options.now);
    try {
      return jinja::Evaluator(tree, variables, options.trusted_variables, runtime).run();
    } catch (const jinja::Failure& failure) {
      throw TemplateError(message_of(name, failure), printable(failure.reason, k_max_reason),
                          failure.line, failure.raised);
    }
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& name) {
  if (source.size() > k_max_source) {
    fail(ErrorCode::bad_file, "{}: a template of {} bytes; at most {} are accepted",
         printable(name), source.size(), k_max_source);
  }
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  try {
    jinja::parse_template(replace_invalid_utf8(source), impl->tree);
  } catch (const jinja::Failure& failure) {
    fail(ErrorCode::bad_file, "{}", message_of(name, failure));
  }
  return ChatTemplate(std::move(impl));
}

std::string ChatTemplate::render(const Json& variables, const RenderOptions& options) const {
  return impl_->render(variables, options).bytes();
}

std::vector<Segment> ChatTemplate::render_segments(const Json& variables,
                                                   const RenderOptions& options) const {
  std::vector<Segment> out;
  impl_->render(variables, options).each_run([&](std::string_view run, bool from_template) {
    out.push_back({std::string(run), from_template});
  });
  return out;
}

}  // namespace strata::text
