# Everything is done by tests/run; these are its short names. Each is safe to repeat and prints its time.
.PHONY: demo test test-all lint units conformance kernel kernel-vm bench integration api scenario examples molecule sanity docs clean distclean help \
  sanity-all matrix importer coredns metallb bgp kills pods release

help:
	@tests/run help

demo:
	@tests/run demo

test:
	@tests/run all

# make test-all PIECES="matrix importer": some of it
test-all:
	@tests/run test_all $(PIECES)

sanity-all:
	@tests/run sanity_all

lint units kernel integration api scenario examples sanity matrix importer coredns metallb bgp kills pods release:
	@tests/run $@

bench:
	@tests/run bench

docs:
	@tests/run docs

kernel-vm:
	@tests/run kernel_vm

molecule:
	@tests/run molecule_all

# make conformance VECTORS=DIR REPORT=FILE
VECTORS ?= tests/conformance/vectors
conformance:
	@tests/run conformance --vectors "$(abspath $(VECTORS))" $(if $(REPORT),--report "$(abspath $(REPORT))")

clean distclean:
	@tests/run $@
