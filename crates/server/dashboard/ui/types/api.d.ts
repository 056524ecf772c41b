// Written by types.mjs from the OpenAPI documents of the server; changes by hand are lost.

export interface AllocationResult {
  devices?: DeviceAllocationResult;
}

export interface BasicDevice {
  attributes?: Record<string, DeviceAttribute>;
  capacity?: Record<string, DeviceCapacity>;
  nodeName?: string;
  taints?: Array<DeviceTaintV1beta1>;
}

export interface BetaDevice {
  basic?: BasicDevice;
  name: string;
}

export interface CELDeviceSelector {
  expression: string;
}

export interface Condition {
  lastTransitionTime: string;
  message: string;
  observedGeneration?: number;
  reason: string;
  status: string;
  type: string;
}

export interface Device {
  attributes?: Record<string, DeviceAttributeV1>;
  capacity?: Record<string, DeviceCapacityV1>;
  name: string;
  nodeName?: string;
  taints?: Array<DeviceTaintV1>;
}

export interface DeviceAllocationResult {
  results?: Array<DeviceRequestAllocationResult>;
}

export interface DeviceAttribute {
  bool?: boolean;
  bools?: Array<boolean>;
  int?: number;
  ints?: Array<number>;
  string?: string;
  strings?: Array<string>;
  version?: string;
  versions?: Array<string>;
}

export interface DeviceAttributeV1 {
  bool?: boolean;
  bools?: Array<boolean>;
  int?: number;
  ints?: Array<number>;
  string?: string;
  strings?: Array<string>;
  version?: string;
  versions?: Array<string>;
}

export interface DeviceCapacity {
  value: string;
}

export interface DeviceCapacityV1 {
  value: string;
}

export interface DeviceClass {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

export interface DeviceIncident {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec: {
    abandoned?: {
      at: string;
      by?: string;
      reason?: string;
    };
    acknowledged?: {
      at: string;
      by?: string;
      reason?: string;
    };
    cause: string;
    detectedAt?: string;
    device: {
      device: string;
      driver: string;
      pool: string;
    };
    hardwareID?: string;
    number: number;
    openedAt: string;
    policy: string;
    repaired?: {
      at: string;
      by?: string;
      reason?: string;
    };
    rule: string;
    stage: string;
    taintKey?: string;
    taintValue: string;
  };
  status?: {
    acknowledgedBy?: string;
    attempts?: number;
    calmSince?: string;
    cost?: {
      namespaces?: Array<string>;
      outOfServiceSeconds?: number;
      outOfServiceSince?: string;
      podsEvicted?: number;
    };
    demands?: Array<{
      met?: boolean;
      policy?: string;
      rule?: string;
    }>;
    device?: {
      device: string;
      driver: string;
      pool: string;
    };
    enforced?: boolean;
    flaps?: Array<string>;
    goneSince?: string;
    handled?: {
      abandoned?: string;
      acknowledged?: string;
      repaired?: string;
    };
    held?: {
      guard?: string;
      message?: string;
      policy?: string;
      reason?: string;
      rule?: string;
      stage?: string;
      taintKey?: string;
      taintValue?: string;
    };
    policy?: string;
    rule?: string;
    sameIdentityAs?: {
      device: string;
      driver: string;
      pool: string;
    };
    since?: string;
    stage?: string;
    step?: number;
    taintKey?: string;
    taintValue?: string;
    task?: {
      name?: string;
      namespace?: string;
      uid?: string;
    };
    timeToRecoverSeconds?: number;
    timeline?: Array<{
      actor?: string;
      at: string;
      cause?: string;
      stage: string;
    }>;
    timelineFolded?: number;
    times?: {
      cleared?: string;
      decided?: string;
      detected?: string;
      drained?: string;
      repaired?: string;
    };
    tries?: number;
    validated?: boolean;
    waitsFor?: string;
  };
}

export interface DevicePatch {
  attributes?: Record<string, NullableDeviceAttribute>;
  capacity?: Record<string, NullableDeviceCapacity>;
  filter?: DeviceTaintSelector;
  priority?: number;
  taints?: Array<DeviceTaint>;
}

export interface DeviceRequestAllocationResult {
  device: string;
  driver: string;
  pool: string;
  request: string;
}

export interface DeviceSelector {
  cel?: CELDeviceSelector;
}

export interface DeviceTaint {
  data?: unknown;
  description?: string;
  effect: string;
  evictionsPerSecond?: number;
  key: string;
  timeAdded?: string;
  value?: string;
}

export interface DeviceTaintRule {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec: DeviceTaintRuleSpec;
  status?: DeviceTaintRuleStatus;
}

export interface DeviceTaintRuleEvictions {
  atLeast?: boolean;
  complete?: boolean;
  pods?: number;
  until?: string;
}

export interface DeviceTaintRuleSpec {
  deviceSelector?: DeviceTaintSelector;
  taint: DeviceTaint;
}

export interface DeviceTaintRuleStatus {
  conditions?: Array<Condition>;
  effectiveSince?: string;
  evicting?: Array<string>;
  evictions?: DeviceTaintRuleEvictions;
}

export interface DeviceTaintSelector {
  device?: string;
  deviceClassName?: string;
  driver?: string;
  pool?: string;
  selectors?: Array<DeviceSelector>;
}

export interface DeviceTaintV1 {
  effect: string;
  key: string;
  timeAdded?: string;
  value?: string;
}

export interface DeviceTaintV1beta1 {
  effect: string;
  key: string;
  timeAdded?: string;
  value?: string;
}

export interface DisruptionGuard {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec: {
    approvers?: string;
    breaker?: {
      faultDomainAttribute?: string;
      maxOutOfService: number | string;
      of?: string;
      resetAfterSeconds?: number;
      windowSeconds?: number;
    };
    confirmAbove?: {
      devices?: number | string;
      namespaces?: number;
      pods?: number;
    };
    deviceSelector?: {
      device?: string;
      deviceClassName?: string;
      driver?: string;
      pool?: string;
      selectors?: Array<{
        cel: {
          expression: string;
        };
      }>;
    };
    paused?: {
      reason: string;
      until?: string;
    };
    windows?: Array<{
      duration: string;
      start: string;
      timeZone?: string;
    }>;
  };
  status?: {
    breaker?: {
      belowSince?: string;
      exceededSince?: string;
      outOfService?: number;
      permitted?: number;
      recent?: number;
      recentUntil?: string;
      total?: number;
      tripped?: boolean;
      trips?: number;
    };
    conditions?: Array<{
      lastTransitionTime: string;
      message: string;
      observedGeneration?: number;
      reason: string;
      status: string;
      type: string;
    }>;
    held?: Array<{
      devices?: number;
      driver?: string;
      key?: string;
      message?: string;
      namespaces?: number;
      patch?: string;
      pods?: number;
      reason?: string;
      since?: string;
      value?: string;
    }>;
    selected?: {
      devices?: number;
      generation?: number;
      problem?: string;
    };
    window?: {
      open?: boolean;
      opensAt?: string;
    };
  };
}

export interface Event {
  action?: string;
  apiVersion?: string;
  count?: number;
  eventTime?: string;
  firstTimestamp?: string;
  involvedObject: ObjectReference;
  kind?: string;
  lastTimestamp?: string;
  message?: string;
  metadata: ObjectMeta;
  reason?: string;
  related?: ObjectReference;
  reportingComponent: string;
  reportingInstance: string;
  series?: EventSeries;
  source?: EventSource;
  type?: string;
}

export interface EventSeries {
  count?: number;
  lastObservedTime?: string;
}

export interface EventSource {
  component?: string;
  host?: string;
}

export interface ListMeta {
  continue?: string;
  remainingItemCount?: number;
  resourceVersion?: string;
}

export interface Node {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

export interface NullValue {
}

export interface NullableDeviceAttribute {
  bool?: boolean;
  bools?: Array<boolean>;
  int?: number;
  ints?: Array<number>;
  null?: NullValue;
  string?: string;
  strings?: Array<string>;
  version?: string;
  versions?: Array<string>;
}

export interface NullableDeviceCapacity {
  null?: NullValue;
  value?: string;
}

export interface ObjectMeta {
  annotations?: Record<string, string>;
  creationTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  deletionTimestamp?: string;
  generation?: number;
  labels?: Record<string, string>;
  name?: string;
  namespace?: string;
  ownerReferences?: Array<OwnerReference>;
  resourceVersion?: string;
  uid?: string;
}

export interface ObjectReference {
  apiVersion?: string;
  fieldPath?: string;
  kind?: string;
  name?: string;
  namespace?: string;
  resourceVersion?: string;
  uid?: string;
}

export interface OwnerReference {
  apiVersion: string;
  blockOwnerDeletion?: boolean;
  controller?: boolean;
  kind: string;
  name: string;
  uid: string;
}

export interface Pod {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec?: PodSpec;
  status?: PodStatus;
}

export interface PodCondition {
  lastProbeTime?: string;
  lastTransitionTime?: string;
  message?: string;
  observedGeneration?: number;
  reason?: string;
  status: string;
  type: string;
}

export interface PodResourceClaim {
  name: string;
  resourceClaimName?: string;
}

export interface PodResourceClaimStatus {
  name: string;
  resourceClaimName?: string;
}

export interface PodSpec {
  nodeName?: string;
  resourceClaims?: Array<PodResourceClaim>;
}

export interface PodStatus {
  conditions?: Array<PodCondition>;
  phase?: string;
  resourceClaimStatuses?: Array<PodResourceClaimStatus>;
}

export interface ResourceAttributes {
  group?: string;
  resource?: string;
  verb?: string;
}

export interface ResourceClaim {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  status?: ResourceClaimStatus;
}

export interface ResourceClaimConsumerReference {
  apiGroup?: string;
  name: string;
  resource: string;
  uid: string;
}

export interface ResourceClaimStatus {
  allocation?: AllocationResult;
  reservedFor?: Array<ResourceClaimConsumerReference>;
}

export interface ResourcePool {
  generation: number;
  name: string;
  resourceSliceCount: number;
}

export interface ResourceSlice {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec: ResourceSliceSpec;
}

export interface ResourceSlicePatch {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec: ResourceSlicePatchSpec;
}

export interface ResourceSlicePatchSpec {
  devices: DevicePatch;
}

export interface ResourceSliceSpec {
  devices?: Array<Device>;
  driver: string;
  nodeName?: string;
  pool: ResourcePool;
  taints?: Array<SliceDeviceTaint>;
}

export interface SelfSubjectAccessReview {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  spec: SelfSubjectAccessReviewSpec;
  status?: SubjectAccessReviewStatus;
}

export interface SelfSubjectAccessReviewSpec {
  resourceAttributes?: ResourceAttributes;
}

export interface SelfSubjectReview {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
  status?: SelfSubjectReviewStatus;
}

export interface SelfSubjectReviewStatus {
  userInfo?: UserInfo;
}

export interface SliceDeviceTaint {
  device: string;
  taint: DeviceTaint;
}

export interface Status {
  apiVersion?: string;
  code?: number;
  details?: StatusDetails;
  kind?: string;
  message?: string;
  metadata?: ListMeta;
  reason?: string;
  status?: string;
}

export interface StatusCause {
  field?: string;
  message?: string;
  reason?: string;
}

export interface StatusDetails {
  causes?: Array<StatusCause>;
  group?: string;
  kind?: string;
  name?: string;
  retryAfterSeconds?: number;
  uid?: string;
}

export interface SubjectAccessReviewStatus {
  allowed: boolean;
  denied?: boolean;
  evaluationError?: string;
  reason?: string;
}

export interface UserInfo {
  username?: string;
}
