"""Which RDMA devices of a machine are NICs of a network.

It also tells which of the machine's network functions hide one. /sys/class/infiniband lists more
than NICs. Left out are

- virtual functions, unless they are asked for, and devices without a PCI function (scalable
  functions);
- the bridges to the NVSwitches of HGX B200 and B300: ConnectX-7 functions with `SMDL=SW_MNG` in
  their vital product data. Only root can read that. Without it, four InfiniBand functions of one
  ConnectX-7 are taken for such a bridge: these boards have them
  (Mellanox/nic-configuration-operator#496, siderolabs/extensions#893), and no card that is sold
  does. Where a machine has all GPUs of such a board and two InfiniBand functions of a ConnectX-7
  altogether, these are the bridge, because the board has one (NVIDIA Fabric Manager user guide);
- sub-devices of type SMI (`rdma dev add smi1 type SMI parent mlx5_0`), which show the planes of
  their parent's port again. The kernel gives them no verbs device (ib_uverbs_add_one).

With `rdma system set netns exclusive` a pod takes an RDMA device along into its own namespace. The
PCI function stays.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from toposcope.agent.pci_bus import Functions, PciBus, PciKind
from toposcope.agent.raw import RawDataDirect, RawNic, RawPort
from toposcope.agent.sysfs_files import Entry, Files
from toposcope.hardware.pci import card
from toposcope.text import natural

_MELLANOX: Final = "0x15b3"
_CONNECTX_7: Final = "0x1021"
_DATA_DIRECT: Final = "0x2100"
"""The function's id in the kernel's drivers/infiniband/hw/mlx5/data_direct.c."""
_NETWORK: Final = ("0x0200", "0x0207")
"""Classes of Ethernet and InfiniBand controllers."""
_BRIDGE: Final = "0x0604"
_DRIVER: Final = "mlx5_core"
_RDMA_MODULE: Final = "mlx5_ib"
_INFINIBAND: Final = "InfiniBand"
_MANAGEMENT_FUNCTIONS: Final = 4
_LEAST_MANAGEMENT_FUNCTIONS: Final = 2
_NVIDIA: Final = "0x10de"
_BOARDS_WITH_BRIDGE: Final = frozenset({"0x2901", "0x3182"})
"""GPUs of HGX B200 and B300."""
_WHOLE_BOARD_GPUS: Final = 8
_NOT_ON_BUS: Final = -1
_SUB_DEVICE: Final = "smi"
_BOND: Final = "_bond_"
"""In what mlx5 calls the device of aggregated ports."""


class Network(NamedTuple):
    """What of a machine belongs to its networks."""

    nics: tuple[RawNic, ...]
    """In the order of `nvidia-smi topo -m`: by name, its numbers as numbers."""
    data_direct: tuple[RawDataDirect, ...]
    """By address."""
    hidden: tuple[str, ...]
    """Addresses of functions whose RDMA device is in another network namespace.

    It was never seen here.
    """


class _Device(NamedTuple):
    """An RDMA device, and its PCI function on the bus."""

    nic: RawNic
    function: Entry

    @property
    def card(self) -> str:
        """The address of the card, which may have several functions."""
        return card(self.nic.pci.address)


class RdmaDevices:
    """Reads them, and remembers what cannot change, and the NICs that were there."""

    def __init__(self, root: str, files: Files, bus: PciBus, *, has_vf_rails: bool) -> None:
        self._root = root
        self._files = files
        self._bus = bus
        self._has_vf_rails = has_vf_rails
        self._devices: dict[Entry, _Device | None] = {}
        """RDMA devices by entry; None: it is no NIC, and will never be one."""
        self._verbs: dict[Entry, str] = {}
        self._last_nics: dict[Entry, RawNic] = {}
        """The NIC of each function as it was last."""

    def read(self, functions: Functions) -> Network:
        """The NICs that there are now; `functions` are those on the bus."""
        every_device = self._read_devices(functions)
        devices = self._without_sub_devices(every_device)
        visible = self._without_management(devices, functions)
        self._remember(visible, functions)
        held, hidden = self._invisible(functions, devices)
        nics = [device.nic for device in visible] + held
        nics.sort(key=lambda nic: natural(nic.name))
        return Network(
            nics=tuple(nics),
            data_direct=tuple(self._data_direct(functions)),
            hidden=tuple(sorted(hidden)),
        )

    def _remember(self, visible: Sequence[_Device], functions: Functions) -> None:
        for device in visible:
            self._last_nics[device.function] = device.nic
        for gone in self._last_nics.keys() - functions.keys():
            del self._last_nics[gone]

    # The devices that the kernel shows

    def _read_devices(self, functions: Functions) -> list[_Device]:
        """RDMA devices of PCI functions, without virtual ones unless they are wanted."""
        on_bus = {function[0]: function for function in functions}
        known_devices: dict[Entry, _Device | None] = {}
        devices = []
        for entry in self._files.entries(f"{self._root}/class/infiniband"):
            if entry in self._devices:
                device = self._devices[entry]
            else:
                device = self._read_device(entry[0], on_bus)
            if device is None:
                known_devices[entry] = None
                continue
            if _is_complete(device.nic):
                known_devices[entry] = device
            nic = self._with_states(device.nic)
            devices.append(device._replace(nic=nic))
        self._devices = known_devices
        return devices

    def _read_device(self, name: str, on_bus: dict[str, Entry]) -> _Device | None:
        folder = f"{self._root}/class/infiniband/{name}"
        if not self._files.exists(f"{folder}/device/vendor"):
            return None
        virtual = self._files.lexists(f"{folder}/device/physfn")
        if virtual and not self._has_vf_rails:
            return None
        place = self._bus.place(f"{folder}/device")
        function = on_bus.get(place.address)
        if function is None:  # a part of the tree is hidden
            function = self._files.real(f"{folder}/device"), _NOT_ON_BUS
        parent: str | None = None
        if virtual:
            parent = self._bus.parent(function) or None
        nic = RawNic(
            name=name,
            pci=place._replace(driver=self._bus.driver(function)),
            guid=self._files.text(f"{folder}/node_guid"),
            ports=self._read_ports(f"{folder}/ports"),
            parent=parent,
        )
        return _Device(nic, function)

    def _read_ports(self, folder: str) -> tuple[RawPort, ...]:
        numbers = []
        for name in self._files.names(folder):
            if name.isdecimal():
                numbers.append(int(name))
        ports = []
        for number in sorted(numbers):
            link_layer = self._files.text(f"{folder}/{number}/link_layer")
            port = RawPort(number, link_layer, state="")
            ports.append(port)
        return tuple(ports)

    def _with_states(self, nic: RawNic) -> RawNic:
        folder = f"{self._root}/class/infiniband/{nic.name}/ports"
        ports = []
        for port in nic.ports:
            state = self._files.text(f"{folder}/{port.number}/state")
            port_now = port._replace(state=state)
            ports.append(port_now)
        return nic._replace(ports=tuple(ports))

    # Those that are no NICs

    def _without_sub_devices(self, devices: Sequence[_Device]) -> list[_Device]:
        """One device of each PCI function: the one that is no sub-device of another."""
        by_function: dict[Entry, list[_Device]] = {}
        for device in devices:
            by_function.setdefault(device.function, []).append(device)
        kept = []
        for function, group in by_function.items():
            if len(group) > 1:
                kept.append(self._parent_device(group))
            elif not self._has_lost_parent(function, group[0]):
                kept.append(group[0])
        return kept

    def _has_lost_parent(self, function: Entry, device: _Device) -> bool:
        """Whether the only device of a function is a sub-device, whose parent a pod took along."""
        last_nic = self._last_nics.get(function)
        if last_nic is None or last_nic.name == device.nic.name:
            return False
        return _is_named_as_sub_device(device)

    def _parent_device(self, group: Sequence[_Device]) -> _Device:
        names = self._names_with_verbs()
        with_verbs = [device for device in group if device.nic.name in names]
        return min(with_verbs or group, key=_parents_first)

    def _names_with_verbs(self) -> frozenset[str]:
        folder = f"{self._root}/class/infiniband_verbs"
        names = {}
        for entry in self._files.entries(folder):
            name = self._verbs.get(entry)
            if not name:
                name = self._files.text(f"{folder}/{entry[0]}/ibdev")
            names[entry] = name
        self._verbs = names
        return frozenset(names.values())

    def _without_management(
        self, devices: Sequence[_Device], functions: Functions
    ) -> list[_Device]:
        """The devices that are no bridges to NVSwitches, with their cards."""
        on_bus = {function[0]: function for function in functions}
        unknown: list[_Device] = []
        kept = []
        for device in devices:
            if not _is_mellanox(functions.get(device.function)):
                kept.append(device)
                continue
            # A virtual function has no vital product data of its own.
            vpd = self._bus.vpd(on_bus.get(device.nic.parent or "", device.function))
            if vpd is None:
                unknown.append(device)
            elif not vpd.manages_nvswitches:
                kept.append(device._replace(nic=device.nic._replace(card=vpd.card)))
        presumed = self._presumed_management(unknown, functions)
        kept += [device for device in unknown if device.card not in presumed]
        return kept

    def _presumed_management(self, devices: Sequence[_Device], functions: Functions) -> set[str]:
        """Cards that are bridges by their form, and by what the board has."""
        counts: Counter[str] = Counter()
        for device in devices:
            link_layers = {port.link_layer for port in device.nic.ports}
            if link_layers != {_INFINIBAND}:
                continue
            if self._bus.device_id(device.function) == _CONNECTX_7:
                counts[device.card] += 1
        if counts.total() == _LEAST_MANAGEMENT_FUNCTIONS and self._has_board_with_bridge(functions):
            return set(counts)
        bridges = set()
        for address, count in counts.items():
            if count == _MANAGEMENT_FUNCTIONS:
                bridges.add(address)
        return bridges

    def _has_board_with_bridge(self, functions: Functions) -> bool:
        """Whether all GPUs of an HGX B200 or B300 are here.

        A VM with a part of them may have no bridge.
        """
        gpus = 0
        for function, kind in functions.items():
            if kind.vendor == _NVIDIA and self._bus.device_id(function) in _BOARDS_WITH_BRIDGE:
                gpus += 1
        return gpus >= _WHOLE_BOARD_GPUS

    # Those that cannot be seen

    def _invisible(
        self, functions: Functions, devices: Sequence[_Device]
    ) -> tuple[list[RawNic], list[str]]:
        """NICs that were seen before, and the addresses of those that never were.

        `devices` are visible.
        """
        visible = {device.function for device in devices}
        bonded = {device.card for device in devices if _BOND in device.nic.name}
        held, hidden = [], []
        for function, kind in functions.items():
            if function in visible or card(function[0]) in bonded:
                continue  # the ports of a bond have one device, that of the first function
            nic = self._last_nics.get(function)
            if nic is not None:
                if self._is_still_there(function, nic):
                    held.append(_held(nic))
                else:
                    del self._last_nics[function]
            elif self._hides_a_nic(function, kind):
                hidden.append(function[0])
        return held, hidden

    def _is_still_there(self, function: Entry, nic: RawNic) -> bool:
        driver = self._bus.driver(function)
        return driver == nic.pci.driver and not self._is_without_rdma(function, driver)

    def _hides_a_nic(self, function: Entry, kind: PciKind) -> bool:
        if not _is_mellanox(kind) or not kind.pci_class.startswith(_NETWORK):
            return False
        if self._bus.parent(function) and not self._has_vf_rails:
            return False
        driver = self._bus.driver(function)
        if driver != _DRIVER or self._is_without_rdma(function, driver):
            return False
        vpd = self._bus.vpd(function)
        return vpd is None or not vpd.manages_nvswitches

    def _is_without_rdma(self, function: Entry, driver: str | None) -> bool:
        """Whether RDMA is off for a function of mlx5_core: no namespace has its RDMA device."""
        if driver != _DRIVER:
            return False
        # the driver's auxiliary devices: mlx5_core.eth.0, mlx5_core.rdma.0 or mlx5_core.rdma-rep.0
        has_parts = False
        for name in self._files.names(self._bus.folder(function)):
            if name.startswith(f"{_DRIVER}.rdma"):
                return False
            if name.startswith(f"{_DRIVER}."):
                has_parts = True
        if has_parts:
            return True
        modules = f"{self._root}/module"
        driver_loaded = self._files.exists(f"{modules}/{_DRIVER}")
        return driver_loaded and not self._files.exists(f"{modules}/{_RDMA_MODULE}")

    # Data Direct

    def _data_direct(self, functions: Functions) -> Iterator[RawDataDirect]:
        for function, kind in sorted(functions.items()):
            if not _is_mellanox(kind) or kind.pci_class.startswith(_BRIDGE):
                continue
            if self._bus.device_id(function) != _DATA_DIRECT:
                continue
            place = self._bus.fixed(function)
            vpd = self._bus.vpd(function)
            yield RawDataDirect(place, vpd.card if vpd else "")


def _is_mellanox(kind: PciKind | None) -> bool:
    return kind is not None and kind.vendor == _MELLANOX


def _is_complete(nic: RawNic) -> bool:
    """Whether all of a device was there already when it was read."""
    if not nic.guid or not nic.ports:
        return False
    return all(port.link_layer for port in nic.ports)


def _parents_first(device: _Device) -> tuple[bool, int, object]:
    """Sorts a parent before its sub-device, which has a port for each plane of the parent's."""
    return _is_named_as_sub_device(device), len(device.nic.ports), natural(device.nic.name)


def _is_named_as_sub_device(device: _Device) -> bool:
    name = device.nic.name
    return name.startswith(_SUB_DEVICE) and name.removeprefix(_SUB_DEVICE).isdecimal()


def _held(nic: RawNic) -> RawNic:
    """A NIC as it was, but for what its ports do now."""
    ports = tuple([port._replace(state="") for port in nic.ports])
    return nic._replace(is_held=True, ports=ports)
