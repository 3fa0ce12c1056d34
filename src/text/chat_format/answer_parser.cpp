#include "text/chat_format/answer_parser.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace strata::text {
namespace {

constexpr std::string_view k_space = " \n\r\t";
constexpr size_t k_max_name = 256;

size_t end_without_space(std::string_view text) {
  const size_t last = text.find_last_not_of(k_space);
  return last == text.npos ? 0 : last + 1;
}

// A JSON string, decoded; what is none stays.
std::string decoded(const std::string& quoted) {
  try {
    const Json value = Json::parse(quoted);
    if (value.is_string()) return value.as_string();
  } catch (const Error&) {
  }
  return quoted;
}

}  // namespace

AnswerParser::AnswerParser(const ChatFormat& format, AnswerOptions options)
    : format_(format), options_(std::move(options)) {
  const bool channels = format_.calls.body == CallSyntax::Body::channels;
  if (channels) {
    plain_ = !has_tools() && !options_.split_reasoning;
    state_ = State::header;
    return;
  }
  plain_ = format_.think_close.empty() && !has_tools();
  if (options_.in_reasoning && !format_.think_close.empty()) {
    state_ = State::reasoning;
    trim_front_ = options_.split_reasoning;
  } else if (has_tools() && format_.calls.bare) {
    state_ = State::start;
  }
}

AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;

std::vector<AnswerPiece> AnswerParser::push(std::string_view text) {
  held_ += text;
  const size_t whole = held_.size() - incomplete_utf8_suffix(held_);
  in_.append(held_, 0, whole);
  held_.erase(0, whole);
  while (step()) {
  }
  return std::move(out_);
}

std::vector<AnswerPiece> AnswerParser::finish() {
  in_ += held_;
  held_.clear();
  at_end_ = true;
  while (step()) {
  }
  // What is left could have become something else.
  if (attempt_) {
    give_back();
    while (step()) {
    }
  }
  if (!in_.empty()) {
    if (state_ == State::reasoning) {
      think(in_);
    } else if (state_ == State::content) {
      content(in_);
    }
  }
  in_.clear();
  return std::move(out_);
}

bool AnswerParser::step() {
  if (plain_) {
    say(AnswerPiece::Kind::content, in_);
    in_.clear();
    return false;
  }
  switch (state_) {
    case State::content:
      return step_content();
    case State::reasoning:
      return step_reasoning();
    case State::start:
      return step_start();
    case State::section:
      return step_section();
    case State::object:
      return step_object();
    case State::name:
      return step_name();
    case State::arguments:
      return step_arguments();
    case State::parameters:
      return step_parameters();
    case State::key:
      return step_key();
    case State::value:
      return step_value();
    case State::call_end:
      return step_call_end();
    case State::header:
      return step_header();
    case State::body:
      return step_body();
  }
  return false;
}

// ---- text ------------------------------------------------------------------------------------

AnswerParser::Found AnswerParser::find(const std::vector<std::string_view>& marks) const {
  const std::string_view text = in_;
  Found best{text.size(), k_none};
  for (size_t m = 0; m < marks.size(); ++m) {
    if (marks[m].empty()) continue;
    const size_t at = text.find(marks[m]);
    if (at < best.at) best = {at, m};
  }
  if (at_end_) return best;
  for (const std::string_view mark : marks) {
    // The longest end of the text that begins the mark.
    for (size_t n = std::min(mark.size() - std::min<size_t>(mark.size(), 1), text.size()); n > 0;
         --n) {
      const size_t at = text.size() - n;
      if (at < best.at && mark.substr(0, n) == text.substr(at)) {
        best = {at, k_partly};
        break;
      }
    }
  }
  return best;
}

AnswerParser::Front AnswerParser::front(std::string_view mark) const {
  if (mark.empty()) return Front::no;
  if (in_.size() >= mark.size()) {
    return in_.compare(0, mark.size(), mark) == 0 ? Front::yes : Front::no;
  }
  if (at_end_) return Front::no;
  return mark.substr(0, in_.size()) == in_ ? Front::maybe : Front::no;
}

// Whether something is left.
bool AnswerParser::skip_space() {
  const size_t n = std::min(in_.find_first_not_of(k_space), in_.size());
  if (n > 0) consume(n);
  return !in_.empty();
}

void AnswerParser::consume(size_t n) {
  if (attempt_) attempt_->append(in_, 0, n);
  in_.erase(0, n);
}

void AnswerParser::say(AnswerPiece::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!out_.empty() && out_.back().kind == kind && kind != AnswerPiece::Kind::call) {
    const bool same = kind != AnswerPiece::Kind::arguments || out_.back().index == calls_ - 1;
    if (same) {
      out_.back().text += text;
      return;
    }
  }
  AnswerPiece piece;
  piece.kind = kind;
  piece.text = text;
  if (kind == AnswerPiece::Kind::arguments) piece.index = calls_ - 1;
  out_.push_back(std::move(piece));
}

void AnswerParser::content(std::string_view text) {
  if (text.empty()) return;
  if (!space_.empty()) {
    if (content_said_) say(AnswerPiece::Kind::content, space_);
    space_.clear();
  }
  content_said_ = true;
  say(AnswerPiece::Kind::content, text);
}

// White space is said when something follows it within the block.
void AnswerParser::think(std::string_view text) {
  if (!options_.split_reasoning) {
    content(text);
    return;
  }
  const size_t end = end_without_space(text);
  if (end > 0) {
    if (resumed_ && reasoning_said_) say(AnswerPiece::Kind::reasoning, "\n\n");
    resumed_ = false;
    say(AnswerPiece::Kind::reasoning, think_space_);
    think_space_.clear();
    say(AnswerPiece::Kind::reasoning, text.substr(0, end));
    reasoning_said_ = true;
  }
  think_space_ += text.substr(end);
}

void AnswerParser::after_block() {
  const bool bare = has_tools() && format_.calls.bare && !content_said_;
  state_ = bare ? State::start : State::content;
}

std::string_view AnswerParser::call_mark() const {
  if (!has_tools() || format_.calls.bare) return {};
  const std::string_view section = trimmed(format_.calls.section_open);
  return section.empty() ? trimmed(format_.calls.call_open) : section;
}

bool AnswerParser::step_content() {
  if (trim_front_) {
    if (!skip_space()) return false;
    trim_front_ = false;
  }
  const std::vector<std::string_view> marks = {format_.think_open, format_.think_close,
                                               call_mark()};
  const Found found = find(marks);
  const std::string_view text = std::string_view(in_).substr(0, found.at);
  // White space at the end may stand in front of a mark.
  const size_t end = found.index == k_none && at_end_ ? text.size() : end_without_space(text);
  content(text.substr(0, end));
  if (found.index == k_none || found.index == k_partly) {
    in_.erase(0, end);
    return false;
  }
  const std::string_view mark = marks[found.index];
  if (found.index == 2) {
    if (content_said_) space_ += text.substr(end);
    in_.erase(0, found.at);
    begin_call();
    return true;
  }
  if (!options_.split_reasoning) {
    content(text.substr(end));
    content(mark);
    in_.erase(0, found.at + mark.size());
    if (found.index == 0) state_ = State::reasoning;
    return true;
  }
  if (content_said_) space_ += text.substr(end);
  in_.erase(0, found.at + mark.size());
  trim_front_ = true;
  // A closing mark without a block is dropped.
  if (found.index == 0) {
    state_ = State::reasoning;
    resumed_ = true;
    think_space_.clear();
  }
  return true;
}

bool AnswerParser::step_reasoning() {
  if (trim_front_) {
    if (!skip_space()) return false;
    // Some models open the block again that the prompt has opened.
    const Front again = reasoning_said_ ? Front::no : front(format_.think_open);
    if (again == Front::maybe) return false;
    if (again == Front::yes) {
      consume(format_.think_open.size());
      return true;
    }
    trim_front_ = false;
  }
  const Found found = find({format_.think_close});
  think(std::string_view(in_).substr(0, found.at));
  if (found.index != 0) {
    in_.erase(0, found.at);
    return false;
  }
  if (!options_.split_reasoning) content(format_.think_close);
  in_.erase(0, found.at + format_.think_close.size());
  think_space_.clear();
  trim_front_ = options_.split_reasoning;
  after_block();
  return true;
}

bool AnswerParser::step_start() {
  // White space is the content's, should there be no call.
  const size_t begin = std::min(in_.find_first_not_of(k_space), in_.size());
  const std::string_view rest = std::string_view(in_).substr(begin);
  if (rest.empty() && !at_end_) return false;
  const auto begins = [&](std::string_view mark) {
    if (mark.empty()) return Front::no;
    if (rest.size() >= mark.size()) {
      return rest.substr(0, mark.size()) == mark ? Front::yes : Front::no;
    }
    return !at_end_ && mark.substr(0, rest.size()) == rest ? Front::maybe : Front::no;
  };
  const Front mark = begins(format_.calls.bare_mark);
  const Front think = begins(format_.think_open);
  if (mark == Front::maybe || think == Front::maybe) return false;
  if (mark == Front::yes || (!rest.empty() && rest[0] == '{')) {
    begin_attempt();
    bare_ = true;
    consume(begin + (mark == Front::yes ? format_.calls.bare_mark.size() : 0));
    state_ = State::object;
    return true;
  }
  state_ = State::content;
  return true;
}

// ---- calls -----------------------------------------------------------------------------------

void AnswerParser::begin_attempt() {
  attempt_.emplace();
  arguments_.clear();
  any_arguments_ = false;
  scanner_ = {};
  collected_.clear();
  pending_name_.clear();
  member_ = Member::open;
  nested_ = 0;
  arguments_begun_ = arguments_quoted_ = false;
  parameters_ = 0;
  tool_ = nullptr;
}

// At the mark in front of the calls.
void AnswerParser::begin_call() {
  begin_attempt();
  const CallSyntax& c = format_.calls;
  const std::string_view mark = call_mark();
  consume(mark.size());
  if (!trimmed(c.section_open).empty()) {
    state_ = State::section;
    return;
  }
  state_ = c.body == CallSyntax::Body::object ? State::object : State::name;
}

void AnswerParser::give_back() {
  const std::string all = std::move(*attempt_);
  attempt_.reset();
  bare_ = false;
  std::string_view text = all;
  if (trim_front_) text.remove_prefix(std::min(text.find_first_not_of(k_space), text.size()));
  trim_front_ = trim_front_ && text.empty();
  content(text);
  state_ = State::content;
}

const Tool* AnswerParser::find_tool(std::string_view name) const {
  for (const Tool& tool : *options_.tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

// From here on it is a call. False: it cannot be one.
bool AnswerParser::commit(std::string name, std::string id) {
  tool_ = find_tool(name);
  if (name.empty() || (bare_ && tool_ == nullptr)) return false;
  attempt_.reset();
  ++calls_;
  AnswerPiece piece;
  piece.kind = AnswerPiece::Kind::call;
  piece.index = calls_ - 1;
  piece.name = std::move(name);
  piece.id = std::move(id);
  if (piece.id.empty()) {
    piece.id = options_.make_id ? options_.make_id() : "call_" + std::to_string(piece.index);
  }
  out_.push_back(std::move(piece));
  return true;
}

void AnswerParser::add_arguments(std::string_view text) {
  if (text.empty()) return;
  if (attempt_) {
    arguments_ += text;
    return;
  }
  any_arguments_ = true;
  say(AnswerPiece::Kind::arguments, text);
}

// The arguments are through, or, in the middle of them, the text is.
void AnswerParser::end_call(bool whole) {
  if (whole && !any_arguments_) add_arguments("{}");
  state_ = State::call_end;
}

bool AnswerParser::step_section() {
  const CallSyntax& c = format_.calls;
  if (!skip_space()) return false;
  if (c.list) {
    if (in_[0] == '[' || in_[0] == ',') {
      consume(1);
      return true;
    }
    if (in_[0] == '{') {
      if (!attempt_) begin_attempt();
      member_ = Member::open;
      state_ = State::object;
      return true;
    }
    if (in_[0] == ']' && !attempt_) {
      consume(1);
      return true;
    }
  }
  const Front open = c.list ? Front::no : front(trimmed(c.call_open));
  const Front close = front(trimmed(c.section_close));
  const Front again = front(trimmed(c.section_open));
  if (open == Front::yes) {
    if (!attempt_) begin_attempt();
    consume(trimmed(c.call_open).size());
    state_ = c.body == CallSyntax::Body::object ? State::object : State::name;
    return true;
  }
  if (close == Front::yes && !attempt_) {
    consume(trimmed(c.section_close).size());
    trim_front_ = true;
    state_ = State::content;
    return true;
  }
  if (again == Front::yes && !attempt_) {
    begin_attempt();
    consume(trimmed(c.section_open).size());
    return true;
  }
  if (open == Front::maybe || close == Front::maybe || again == Front::maybe) return false;
  if (attempt_) {
    give_back();
  } else {
    trim_front_ = true;
    state_ = State::content;
  }
  return true;
}

bool AnswerParser::step_object() {
  const auto wrong = [&] {
    if (attempt_) {
      give_back();
    } else {
      end_call(false);
    }
    return true;
  };
  if (member_ == Member::text || member_ == Member::skipped || member_ == Member::arguments) {
    return step_member_value();
  }
  if (!skip_space()) return false;
  const char c = in_[0];
  switch (member_) {
    case Member::open:
      if (c != '{') return wrong();
      consume(1);
      member_ = Member::key;
      return true;
    case Member::key:
      if (c == '}') {
        consume(1);
        if (nested_ > 0) {
          --nested_;
          return true;
        }
        if (attempt_) return wrong();  // nothing was called
        end_call(true);
        return true;
      }
      if (c == ',') {
        consume(1);
        return true;
      }
      if (c != '"') return wrong();
      scanner_ = {};
      collected_.clear();
      member_key_.clear();
      member_ = Member::text;
      return true;
    case Member::colon:
      if (c != ':') return wrong();
      consume(1);
      member_ = Member::value;
      return true;
    default:
      break;
  }
  // A value begins.
  scanner_ = {};
  collected_.clear();
  const bool holds_arguments = member_key_ == format_.calls.arguments_key ||
                               member_key_ == "arguments" || member_key_ == "parameters";
  if (holds_arguments && !any_arguments_ && arguments_.empty()) {
    if (!pending_name_.empty() && attempt_) commit(std::exchange(pending_name_, {}), "");
    arguments_quoted_ = c == '"';
    member_ = Member::arguments;
  } else if (member_key_ == "function" && c == '{') {
    consume(1);
    ++nested_;
    member_ = Member::key;
  } else {
    const bool is_name = (member_key_ == "name" || member_key_ == "function") && c == '"';
    member_ = is_name && attempt_ ? Member::text : Member::skipped;
  }
  return true;
}

// A string or a value that is read to its end.
bool AnswerParser::step_member_value() {
  const size_t n = scanner_.take(in_);
  const std::string text = in_.substr(0, n);
  const bool whole = scanner_.done();
  consume(n);
  if (member_ == Member::arguments && !arguments_quoted_) {
    add_arguments(text);
  } else {
    collected_ += text;
  }
  if (!whole) return false;
  switch (member_) {
    case Member::arguments:
      if (arguments_quoted_) add_arguments(decoded(collected_));
      member_ = Member::key;
      break;
    case Member::text:
      if (member_key_.empty()) {
        member_key_ = decoded(collected_);
        member_ = Member::colon;
        break;
      }
      member_ = Member::key;
      if (bare_ && arguments_.empty()) {
        // A name alone does not make an object a call.
        pending_name_ = decoded(collected_);
        if (find_tool(pending_name_) == nullptr) give_back();
        break;
      }
      if (!commit(decoded(collected_), "")) {
        give_back();
        break;
      }
      if (!arguments_.empty()) add_arguments(std::exchange(arguments_, {}));
      break;
    default:
      member_ = Member::key;
      break;
  }
  return true;
}

bool AnswerParser::step_name() {
  const CallSyntax& c = format_.calls;
  if (!skip_space()) return false;
  const std::string_view open = trimmed(c.name_open);
  if (!open.empty() && attempt_->find(open) == std::string::npos) {
    const Front found = front(open);
    if (found == Front::maybe) return false;
    if (found == Front::yes) {
      consume(open.size());
      return true;
    }
    // A number can do without the word in front; what is within a tag cannot.
    if (!c.numbered) {
      give_back();
      return true;
    }
  }
  // What follows the name may be no more than the end of the line.
  const bool line = trimmed(c.name_end).empty();
  const std::string_view end = line ? "\n" : trimmed(c.name_end);
  const std::string_view close = trimmed(c.call_close);
  const std::string_view next = trimmed(c.parameter_open);
  const Found found = find({end, close, next});
  if (found.at > k_max_name) {
    give_back();
    return true;
  }
  if (found.index == k_none || found.index == k_partly) {
    if (at_end_ && found.index == k_none) give_back();
    return false;
  }
  std::string name(trimmed(std::string_view(in_).substr(0, found.at)));
  std::string id;
  if (const size_t mark = name.find("[CALL_ID]"); mark != std::string::npos) {
    name = std::string(trimmed(name.substr(0, mark)));
  }
  if (c.numbered) {
    const size_t colon = name.rfind(':');
    if (colon != std::string::npos) {
      id = std::string(open) + name;
      name.resize(colon);
    }
  }
  if (!Tool::is_name(name)) {
    give_back();
    return true;
  }
  consume(found.at + (found.index == 0 ? end.size() : 0));
  if (!commit(name, id)) {
    give_back();
    return true;
  }
  if (c.body == CallSyntax::Body::named) {
    scanner_ = {};
    arguments_begun_ = false;
    state_ = State::arguments;
    return true;
  }
  parameters_ = 0;
  values_.clear();
  if (tool_ != nullptr) {
    const Json* properties = tool_->parameters.find("properties");
    if (properties != nullptr && properties->is_object()) {
      for (const auto& [key, schema] : properties->as_object()) {
        values_.emplace(key, TaggedValue(schema, tool_->parameters));
      }
    }
  }
  state_ = State::parameters;
  return true;
}

bool AnswerParser::step_arguments() {
  if (!arguments_begun_) {
    if (!skip_space()) return false;
    const Front close = front(trimmed(format_.calls.call_close));
    if (close == Front::maybe) return false;
    if (close == Front::yes) {
      end_call(true);
      return true;
    }
    arguments_begun_ = true;
    arguments_quoted_ = in_[0] == '"';
    collected_.clear();
  }
  const size_t n = scanner_.take(in_);
  if (arguments_quoted_) {
    collected_.append(in_, 0, n);
  } else {
    add_arguments(std::string_view(in_).substr(0, n));
  }
  consume(n);
  if (!scanner_.done()) return false;
  if (arguments_quoted_) add_arguments(decoded(collected_));
  end_call(true);
  return true;
}

bool AnswerParser::step_parameters() {
  const CallSyntax& c = format_.calls;
  if (!skip_space()) return false;
  const Front open = front(trimmed(c.parameter_open));
  if (open == Front::maybe) return false;
  if (open == Front::yes) {
    consume(trimmed(c.parameter_open).size());
    state_ = State::key;
    return true;
  }
  for (const std::string_view mark : {trimmed(c.arguments_end), trimmed(c.call_close)}) {
    if (front(mark) == Front::maybe) return false;
  }
  add_arguments(parameters_ > 0 ? "}" : "{}");
  end_call(true);
  return true;
}

bool AnswerParser::step_key() {
  const std::string_view end = trimmed(format_.calls.key_end);
  const Found found = find({end});
  if (found.at > k_max_name) {
    end_call(false);
    return true;
  }
  if (found.index != 0) return false;
  key_ = std::string(trimmed(std::string_view(in_).substr(0, found.at)));
  consume(found.at + end.size());
  begin_value();
  return true;
}

void AnswerParser::begin_value() {
  const auto known = values_.find(key_);
  value_type_ = known != values_.end() ? known->second : TaggedValue();
  collected_.clear();
  value_front_ = true;
  std::string text = parameters_ == 0 ? "{\"" : ",\"";
  append_json_escaped(text, key_);
  text += "\":";
  if (value_type_.kind() == TaggedValue::Kind::text) text += '"';
  add_arguments(text);
  ++parameters_;
  state_ = State::value;
}

bool AnswerParser::step_value() {
  const CallSyntax& c = format_.calls;
  const std::string_view open = trimmed(c.value_open);
  const bool own_lines = c.value_end.substr(0, 1) == "\n";
  if (value_front_) {
    if (!open.empty()) {
      if (!skip_space()) return false;
      const Front found = front(open);
      if (found == Front::maybe) return false;
      if (found == Front::yes) consume(open.size());
    } else if (own_lines) {
      if (in_.empty()) return false;
      if (in_[0] == '\n') consume(1);
    }
    value_front_ = false;
  }
  const std::string_view end = trimmed(c.value_end);
  const std::string with_line = "\n" + std::string(end);
  const std::vector<std::string_view> marks = {
      own_lines ? std::string_view(with_line) : std::string_view(), end};
  const Found found = find(marks);
  const std::string_view text = std::string_view(in_).substr(0, found.at);
  const bool streams = value_type_.kind() == TaggedValue::Kind::text;
  if (streams) {
    std::string escaped;
    append_json_escaped(escaped, text);
    add_arguments(escaped);
  } else {
    collected_ += text;
  }
  if (found.index == k_none || found.index == k_partly) {
    in_.erase(0, found.at);
    return false;
  }
  in_.erase(0, found.at + marks[found.index].size());
  add_arguments(streams ? "\"" : value_type_.json_of(collected_));
  state_ = State::parameters;
  return true;
}

bool AnswerParser::step_call_end() {
  const CallSyntax& c = format_.calls;
  if (!skip_space()) return false;
  for (const std::string_view mark : {trimmed(c.arguments_end), trimmed(c.call_close)}) {
    if (c.body == CallSyntax::Body::channels) break;
    const Front found = front(mark);
    if (found == Front::maybe) return false;
    if (found == Front::yes) {
      consume(mark.size());
      if (mark == trimmed(c.call_close)) break;
      return true;
    }
  }
  trim_front_ = true;
  if (bare_) {
    // Another object may follow.
    if (in_.empty()) return false;
    if (in_[0] == ';' || in_[0] == ',') {
      consume(1);
      return true;
    }
    const Front mark = front(c.bare_mark);
    if (mark == Front::maybe) return false;
    if (mark == Front::yes || in_[0] == '{') {
      begin_attempt();
      if (mark == Front::yes) consume(c.bare_mark.size());
      state_ = State::object;
      return true;
    }
    bare_ = false;
    state_ = State::content;
    return true;
  }
  state_ = trimmed(c.section_open).empty() ? State::content : State::section;
  return true;
}

// ---- channels --------------------------------------------------------------------------------

bool AnswerParser::step_header() {
  constexpr std::string_view start = "<|start|>", channel = "<|channel|>", message = "<|message|>";
  if (in_.empty()) return false;
  const std::string_view text = in_;
  bool is_header = false, maybe = false;
  const std::string_view rest = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  for (const std::string_view mark : {start, channel, message, std::string_view("to=")}) {
    if (rest.substr(0, mark.size()) == mark) is_header = true;
    if (rest.size() < mark.size() && mark.substr(0, rest.size()) == rest) maybe = true;
  }
  if (!is_header) {
    if (maybe && !at_end_) return false;
    // Text without a channel.
    body_ = Body::content;
    state_ = State::body;
    return true;
  }
  const Found found = find({message});
  if (found.index != 0 && found.at > 4 * k_max_name) {
    body_ = Body::content;
    state_ = State::body;
    return true;
  }
  if (found.index != 0) {
    if (at_end_) in_.clear();  // no more than marks
    return false;
  }
  const std::string header = in_.substr(0, found.at);
  std::string_view name = header;
  const size_t at = header.find(channel);
  std::string_view channel_name;
  if (at != std::string::npos) {
    channel_name = std::string_view(header).substr(at + channel.size());
    channel_name = channel_name.substr(0, channel_name.find_first_of(" <"));
  }
  const size_t to = header.find("to=functions.");
  name = to == std::string::npos ? std::string_view() : std::string_view(header).substr(to + 13);
  name = name.substr(0, name.find_first_of(" <"));
  in_.erase(0, found.at + message.size());
  body_ = channel_name == "analysis" ? Body::reasoning : Body::content;
  if (has_tools() && !name.empty()) {
    begin_attempt();
    if (commit(std::string(name), "")) {
      body_ = Body::call;
    } else {
      attempt_.reset();
    }
  }
  resumed_ = true;
  think_space_.clear();
  trim_front_ = options_.split_reasoning || body_ == Body::call;
  if (!options_.split_reasoning && body_ != Body::call) {
    content(header);
    content(message);
  } else if (content_said_ && body_ == Body::content) {
    space_ = "\n\n";
  }
  state_ = State::body;
  return true;
}

bool AnswerParser::step_body() {
  const std::vector<std::string_view> marks = {"<|end|>", "<|start|>", "<|call|>", "<|return|>",
                                               "<|channel|>"};
  if (trim_front_) {
    if (!skip_space()) return false;
    trim_front_ = false;
  }
  if (body_ == Body::call && !scanner_.done()) {
    // Marks within a string of the arguments are text.
    const size_t n = scanner_.take(in_);
    add_arguments(std::string_view(in_).substr(0, n));
    in_.erase(0, n);
    return scanner_.done();
  }
  const Found found = find(marks);
  const std::string_view text = std::string_view(in_).substr(0, found.at);
  switch (body_) {
    case Body::content:
      content(text);
      break;
    case Body::reasoning:
      think(text);
      break;
    case Body::call:
      break;
  }
  if (found.index == k_none || found.index == k_partly) {
    in_.erase(0, found.at);
    return false;
  }
  if (body_ == Body::call && !any_arguments_) add_arguments("{}");
  const bool next = found.index == 1 || found.index == 4;
  if (!options_.split_reasoning && body_ != Body::call && !next) content(marks[found.index]);
  in_.erase(0, found.at + (next ? 0 : marks[found.index].size()));
  state_ = State::header;
  return true;
}

void ParsedAnswer::add(const std::vector<AnswerPiece>& pieces) {
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case AnswerPiece::Kind::reasoning:
        reasoning += piece.text;
        break;
      case AnswerPiece::Kind::content:
        content += piece.text;
        break;
      case AnswerPiece::Kind::call:
        calls.push_back({piece.id, piece.name, ""});
        break;
      case AnswerPiece::Kind::arguments:
        if (piece.index < calls.size()) calls[piece.index].arguments += piece.text;
        break;
    }
  }
}

}  // namespace strata::text
