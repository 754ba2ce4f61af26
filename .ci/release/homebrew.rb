# Does what `brew install` and `brew test` do with a formula, where there is no Homebrew: loads it, checks the digest of
# the archive for this system, unpacks it, installs it to a prefix and runs the formula's test there.
#
#   ruby homebrew.rb rlx.rb dist PREFIX
require "digest"
require "fileutils"
require "open3"
require "pathname"
require "rbconfig"
require "tmpdir"

abort "usage: ruby homebrew.rb FORMULA DIST PREFIX" if ARGV.size != 3
FORMULA, DIST, PREFIX = ARGV.map { |path| Pathname(path).expand_path }
MAC = RbConfig::CONFIG["host_os"].include?("darwin")
ARM = /arm|aarch64/.match?(RbConfig::CONFIG["host_cpu"])

# A folder of the prefix, with the methods that Homebrew gives to Pathname.
class Pathname
  def install(*files)
    mkpath
    files.flatten.each do |file|
      (file.is_a?(Hash) ? file : { file => File.basename(file) }).each do |from, name|
        abort "formula: there is no #{from} in the archive" unless File.exist?(from)
        FileUtils.mv(from, self + name)
      end
    end
  end

  def install_symlink(*targets)
    mkpath
    targets.each { |target| File.symlink(target, self + target.basename) }
  end
end

class Formula
  class << self
    attr_reader :test_block

    %i[desc homepage version license url sha256].each do |name|
      define_method(name) do |value = nil|
        @facts ||= {}
        abort "formula: #{name} is set twice" if value && @facts[name]
        value ? @facts[name] = value : @facts.fetch(name) { abort "formula: #{name} is not set" }
      end
    end

    def depends_on(requirement)
      abort "formula: needs #{requirement}" if requirement[:arch] == :arm64 && !ARM
    end

    def on_macos = (yield if MAC)
    def on_linux = (yield unless MAC)
    def on_intel = (yield unless ARM)
    def on_arm = (yield if ARM)
    def test(&block) = @test_block = block
  end

  FOLDERS = { bin: "bin", libexec: "libexec", man1: "share/man/man1", bash_completion: "etc/bash_completion.d",
              zsh_completion: "share/zsh/site-functions", fish_completion: "share/fish/vendor_completions.d" }
  FOLDERS.each { |name, path| define_method(name) { PREFIX + path } }

  def version = self.class.version

  def assert_match(want, got)
    want = Regexp.new(Regexp.escape(want)) if want.is_a?(String)
    abort "formula: #{got.inspect} does not match #{want.inspect}" unless want.match?(got)
  end

  def shell_output(command)
    out, status = Open3.capture2(command)
    abort "formula: #{command}: #{status}" unless status.success?
    out
  end
end

load FORMULA.to_s
formula = Rlx.new
%i[desc homepage license].each { |name| Rlx.send(name) }
abort "formula: desc is longer than Homebrew allows" if Rlx.desc.size > 80
archive = DIST + File.basename(Rlx.url)
abort "formula: #{Rlx.url} does not name version #{Rlx.version}" unless Rlx.url.include?("/v#{Rlx.version}/")
abort "formula: the digest of #{archive} differs" if Digest::SHA256.file(archive).hexdigest != Rlx.sha256
Dir.mktmpdir do |dir|
  system("tar", "-xzf", archive.to_s, "-C", dir, exception: true)
  Dir.chdir(Dir["#{dir}/*"].first) { formula.install } # Homebrew enters the only folder of an archive
end
Dir.mktmpdir { |dir| Dir.chdir(dir) { formula.instance_eval(&Rlx.test_block) } }
