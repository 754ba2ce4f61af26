#!/bin/sh
# All that can be tested on a Mac: make test-metal. It writes out/metal/report.txt, to paste into an issue, and fails if
# a part has failed.
set -u
cd "$(dirname "$0")/../.."
if [ "$(uname -sm)" != "Darwin arm64" ]; then
	echo "make test-metal: needs a Mac with Apple silicon, and this is $(uname -sm); make test-metal-shim tests what can be tested elsewhere" >&2
	exit 1
fi
GO=${GO:-go}
out=out/metal
report=$out/report.txt
mkdir -p $out
failed=0

# part NAME COMMAND... runs a part, and reports its result, its time, its lines with "report:", and the end of its
# output if it failed.
part() {
	name=$1
	shift
	echo "== $name: $*"
	begin=$(date +%s)
	if "$@" >"$out/$name.log" 2>&1; then result=passed; else result=FAILED failed=$((failed + 1)); fi
	echo "$name: $result, $(($(date +%s) - begin)) s" | tee -a $report
	sed -n 's/.*report: /    /p' "$out/$name.log" | sort -u | tee -a $report
	if [ $result = FAILED ]; then tail -n 40 "$out/$name.log" | sed 's/^/    /' | tee -a $report; fi
}

{
	echo "metal on $(sysctl -n machdep.cpu.brand_string), $(($(sysctl -n hw.memsize) >> 30)) GB, macOS $(sw_vers -productVersion) ($(sw_vers -buildVersion))"
	echo "$($GO version), rlx $(git rev-parse --short HEAD 2>/dev/null || echo unknown)$(test -z "$(git status --porcelain 2>/dev/null)" || echo ' with changes'), $(date -u +%Y-%m-%d)"
} | tee $report

tests="$GO test -count=1 -v -timeout 30m"
export CGO_ENABLED=0 RLX_REQUIRE_GPU=1
part build make build
part table $tests -run '^(TestTable|TestStructs|TestUses)' ./plugins/metal/driver
part device $tests -run '^TestDevice' ./plugins/metal/driver
part validation env MTL_DEBUG_LAYER=1 $tests -short -run '^TestDevice$' ./plugins/metal/driver # Metal checks every call, and ends the process at a wrong one
part suite bin/rlxrun plugins test metal --full
part compile bin/rlxc demo/sam-nano.safetensors -o out/sam.rlx
for b in cpu metal; do part mask-$b bin/rlxrun out/sam.rlx -b $b --image demo/scene1.png --point 128,128 -o $out/$b.png; done
part masks env RLX_MASKS="$PWD/$out" $tests -run '^TestMasks$' ./plugins/metal/driver
for b in cpu metal; do
	part speed-$b bin/rlxrun bench out/sam.rlx -b $b --method encode --warmup 5 -n 20
	test $result = FAILED || sed 's/^/    /' $out/speed-$b.log | tee -a $report
done
part profile bin/rlxrun out/sam.rlx -b metal --image demo/scene1.png --point 128,128 -o $out/metal.png --profile
test $result = FAILED || head -n 40 $out/profile.log | sed 's/^/    /' | tee -a $report

if [ $failed = 0 ]; then echo "all parts passed" | tee -a $report; else echo "$failed parts failed" | tee -a $report; fi
echo
echo "please paste $report into an issue of this project"
test $failed = 0
